#include "tests/integration/raw_http2.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "tests/integration/raw_frames.h"

namespace gemmd::testing {
namespace {

constexpr size_t kMaxFrameBytes = 16384;

}  // namespace

RawHttp2::RawHttp2(const std::string& address)
    : fd_(ConnectTo(address)), alive_(fd_.ok()) {
  Write(kPreface);
  Frame(kSettings, 0, 0, "");
}

uint32_t RawHttp2::Open(std::string_view path, std::string_view timeout,
                        std::string_view announced) {
  const uint32_t stream = next_stream_;
  next_stream_ += 2;
  windows_[stream] = initial_window_;
  open_.insert(stream);
  Frame(kHeaders, kEndHeaders, stream,
        HeadersOf(path,
                  (timeout.empty() ? "" : Literal("grpc-timeout", timeout)) +
                      (announced.empty()
                           ? ""
                           : Literal("gemmd-message-bytes", announced))));
  return stream;
}

int64_t RawHttp2::Send(uint32_t stream, std::string_view bytes, bool end,
                       absl::Duration patience) {
  return SendData(stream, bytes, end, patience, false);
}

int64_t RawHttp2::SendLate(uint32_t stream, std::string_view bytes) {
  return SendData(stream, bytes, false, absl::Seconds(5), true);
}

int64_t RawHttp2::SendData(uint32_t stream, std::string_view bytes, bool end,
                           absl::Duration patience, bool late) {
  int64_t sent = 0;
  while (alive_ && (late || open_.count(stream) > 0)) {
    const int64_t most = std::min(window_, windows_[stream]);
    const auto part = bytes.substr(
        0, std::clamp<int64_t>(most, 0, static_cast<int64_t>(kMaxFrameBytes)));
    if (part.empty() && !bytes.empty()) {
      if (!ReadFrame(patience)) break;
      continue;
    }
    bytes.remove_prefix(part.size());
    Frame(kData, end && bytes.empty() ? kEndStream : 0, stream, part);
    window_ -= part.size();
    windows_[stream] -= part.size();
    sent += part.size();
    if (bytes.empty()) break;
    while (ReadFrame(absl::ZeroDuration())) {
    }
  }
  return sent;
}

void RawHttp2::SendPrefix(uint32_t stream, uint32_t size) {
  Send(stream, std::string(1, '\0') + Big32(size), false);
}

void RawHttp2::Reset(uint32_t stream) {
  Frame(kReset, 0, stream, Big32(8));  // CANCEL
  open_.erase(stream);
}

void RawHttp2::Read(absl::Duration time) {
  const absl::Time end = absl::Now() + time;
  while (alive_ && absl::Now() < end) ReadFrame(end - absl::Now());
}

void RawHttp2::Write(std::string_view bytes) {
  while (alive_ && !bytes.empty()) {
    const ssize_t written =
        send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (written <= 0) {
      alive_ = false;
    } else {
      bytes.remove_prefix(written);
    }
  }
}

std::string RawHttp2::FrameOf(uint8_t type, uint8_t flags, uint32_t stream,
                              std::string_view payload) {
  std::string frame = Big32(static_cast<uint32_t>(payload.size())).substr(1);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  frame += Big32(stream);
  frame.append(payload);
  return frame;
}

void RawHttp2::Frame(uint8_t type, uint8_t flags, uint32_t stream,
                     std::string_view payload) {
  Write(FrameOf(type, flags, stream, payload));
}

bool RawHttp2::Fill(char* to, size_t size, absl::Duration patience) {
  while (size > 0) {
    pollfd waiting = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
    // Less than nothing would be for ever.
    const absl::Duration left = std::max(patience, absl::ZeroDuration());
    const int ready =
        poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(left)));
    if (ready <= 0) return false;
    const ssize_t read = recv(fd_.get(), to, size, 0);
    if (read <= 0) {
      alive_ = false;
      return false;
    }
    to += read;
    size -= read;
    patience = absl::Seconds(5);  // The rest of a frame is on its way.
  }
  return true;
}

bool RawHttp2::ReadFrame(absl::Duration patience) {
  char head[9];
  if (!alive_ || !Fill(head, sizeof head, patience)) return false;
  const size_t size = FromBig32(head) >> 8;
  const uint8_t type = head[3];
  const uint8_t flags = head[4];
  const uint32_t stream = FromBig32(head + 5) & 0x7fffffff;
  std::string payload(size, '\0');
  if (!Fill(payload.data(), size, absl::Seconds(5))) return false;
  if (type == kSettings && (flags & kAck) == 0) {
    for (size_t at = 0; at + 6 <= size; at += 6) {
      if (payload[at] != 0 || payload[at + 1] != 4) continue;
      const int64_t initial = FromBig32(payload.data() + at + 2);
      for (auto& [id, window] : windows_) window += initial - initial_window_;
      initial_window_ = initial;
    }
    Frame(kSettings, kAck, 0, "");
  } else if (type == kPing && (flags & kAck) == 0) {
    Frame(kPing, kAck, 0, payload);
  } else if (type == kWindowUpdate) {
    const int64_t more = FromBig32(payload.data()) & 0x7fffffff;
    if (stream == 0) {
      window_ += more;
    } else if (windows_.count(stream) > 0) {
      windows_[stream] += more;
    }
  } else if (type == kReset ||
             (type == kHeaders && (flags & kEndStream) != 0)) {
    if (open_.erase(stream) > 0) ++ended_;
  }
  return true;
}

}  // namespace gemmd::testing
