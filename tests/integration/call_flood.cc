#include "tests/integration/call_flood.h"

#include <poll.h>
#include <sys/socket.h>

#include "gemmd/v1/matmul.pb.h"
#include "tests/integration/raw_frames.h"
#include "tests/integration/raw_http2.h"

namespace gemmd::testing {
namespace {

// With the prefix of a gRPC message.
std::string Product() {
  v1::MatmulRequest request;
  v1::Problem& problem = *request.mutable_header()->mutable_problem();
  problem.set_m(1);
  problem.set_n(1);
  problem.set_k(1);
  problem.set_a_type(v1::DATA_TYPE_BF16);
  problem.set_b_type(v1::DATA_TYPE_BF16);
  problem.set_d_type(v1::DATA_TYPE_F32);
  request.set_a(std::string(2, '\0'));
  request.set_b(std::string(2, '\0'));
  const std::string message = request.SerializeAsString();
  return std::string(4, '\0') + static_cast<char>(message.size()) + message;
}

}  // namespace

CallFlood::CallFlood(const std::string& address, int calls)
    : calls_(calls),
      headers_(HeadersOf("/gemmd.v1.MatmulService/Matmul")),
      message_(Product()),
      fd_(ConnectTo(address)) {
  // Windows for all that comes.
  Send(std::string(kPreface) +
       RawHttp2::FrameOf(kSettings, 0, 0,
                         std::string("\0\4\x40\0\0\0", 6)) +
       RawHttp2::FrameOf(kWindowUpdate, 0, 0, std::string("\x7f\0\0\0", 4)));
}

bool CallFlood::Go(absl::Duration patience) {
  std::string calls;
  for (; begun_ - answered_ < calls_; ++begun_, next_stream_ += 2) {
    calls += RawHttp2::FrameOf(kHeaders, kEndHeaders, next_stream_, headers_);
    calls += RawHttp2::FrameOf(kData, kEndStream, next_stream_, message_);
  }
  if (!Send(calls)) return false;
  pollfd waiting = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
  const auto ms = static_cast<int>(absl::ToInt64Milliseconds(patience));
  if (poll(&waiting, 1, ms) <= 0) return true;
  char bytes[64 << 10];
  const ssize_t count = recv(fd_.get(), bytes, sizeof bytes, 0);
  if (count <= 0) return false;
  received_.append(bytes, count);
  return TakeFrames();
}

bool CallFlood::Send(const std::string& bytes) {
  return send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

bool CallFlood::TakeFrames() {
  size_t at = 0;
  while (received_.size() - at >= kHeadBytes) {
    const char* const head = received_.data() + at;
    const size_t size = kHeadBytes + (FromBig32(head) >> 8);
    if (received_.size() - at < size) break;
    const uint8_t type = head[3], flags = head[4];
    if (type == kReset || (type == kHeaders && (flags & kEndStream) != 0)) {
      ++answered_;
    }
    if (type == kSettings && (flags & kAck) == 0 &&
        !Send(RawHttp2::FrameOf(kSettings, kAck, 0, ""))) {
      return false;
    }
    at += size;
  }
  received_.erase(0, at);
  return true;
}

}  // namespace gemmd::testing
