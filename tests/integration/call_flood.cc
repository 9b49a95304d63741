#include "tests/integration/call_flood.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdlib>

#include "gemmd/v1/matmul.pb.h"
#include "tests/integration/raw_http2.h"

namespace gemmd::testing {
namespace {

constexpr uint8_t kData = 0, kHeaders = 1, kReset = 3, kSettings = 4,
                  kWindow = 8;
constexpr uint8_t kEndStream = 1, kAck = 1, kEndHeaders = 4;
constexpr size_t kHeadBytes = 9;

// RFC 7541, 6.2.2, of a name and a value that are short.
std::string Literal(const std::string& name, const std::string& value) {
  return std::string(1, '\0') + static_cast<char>(name.size()) + name +
         static_cast<char>(value.size()) + value;
}

const std::string& Headers() {
  static const std::string& headers = *new std::string(
      Literal(":method", "POST") + Literal(":scheme", "http") +
      Literal(":path", "/gemmd.v1.MatmulService/Matmul") +
      Literal(":authority", "test") + Literal("te", "trailers") +
      Literal("content-type", "application/grpc"));
  return headers;
}

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

uint32_t FromBig32(const char* bytes) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    value = value << 8 | static_cast<uint8_t>(bytes[i]);
  }
  return value;
}

}  // namespace

CallFlood::CallFlood(const std::string& address, int calls)
    : calls_(calls),
      message_(Product()),
      fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(
      std::atoi(address.substr(address.rfind(':') + 1).c_str())));
  if (connect(fd_.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) {
    return;
  }
  // Windows for all that comes.
  Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" +
       RawHttp2::FrameOf(kSettings, 0, 0,
                         std::string("\0\4\x40\0\0\0", 6)) +
       RawHttp2::FrameOf(kWindow, 0, 0, std::string("\x7f\0\0\0", 4)));
}

bool CallFlood::Go(absl::Duration patience) {
  std::string calls;
  for (; begun_ - answered_ < calls_; ++begun_, next_stream_ += 2) {
    calls += RawHttp2::FrameOf(kHeaders, kEndHeaders, next_stream_, Headers());
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
