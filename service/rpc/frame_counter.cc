#include "service/rpc/frame_counter.h"

namespace gemmd::rpc {
namespace {

// gRPC takes 8 KiB of headers, in frames of up to 16 KiB.
constexpr int64_t kMaxHeadersBytes = 64 << 10;
constexpr int64_t kMaxContinuations = 32;
// gRPC holds the bytes of each frame by a slice of 32 bytes, in an array of up
// to twice as many: those of a message that came byte by byte took 38 times its
// size.
constexpr int64_t kLeastDataBytes = 64;
// So much of what brings nothing is as much work as a frame: settings, each of
// 6 bytes; fields of trailers, of which one byte may stand for kilobytes; what
// a client says when it goes away.
constexpr int64_t kIdleBytes = 64;

}  // namespace

void FrameCounter::Count(const Frame& frame, bool open) {
  const bool continues = frame.type == Frame::kContinuation;
  if (frame.type == Frame::kHeaders || continues) {
    if (!continues) headers_bytes_ = headers_frames_ = 0;
    headers_bytes_ += frame.bytes;
    headers_frames_ += continues;
    if (!acknowledged_) early_bytes_ += frame.bytes;
    endless_headers_ |= headers_bytes_ > kMaxHeadersBytes ||
                        headers_frames_ > kMaxContinuations ||
                        early_bytes_ > kMaxEarlyHeadersBytes;
  }
  // gRPC has put its settings on the way before it reads anything.
  acknowledged_ |=
      frame.type == Frame::kSettings && (frame.flags & Frame::kAck) != 0;
  if (!continues) {
    of_call_ = frame.may_begin_stream() && frame.stream > last_stream_;
    if (of_call_) {
      last_stream_ = frame.stream;
      ++frames_.calls;
    }
  }
  if (of_call_) return;
  if (frame.type == Frame::kData) {
    // No window holds up what gRPC throws away; it brings nothing with it.
    frames_.idle += open ? frame.bytes < kLeastDataBytes
                         : 1 + frame.bytes / kBytesPerIdleFrame;
  } else {
    frames_.idle += 1 + frame.bytes / kIdleBytes;  // Trailers too.
    frames_.pings +=
        frame.type == Frame::kPing && (frame.flags & Frame::kAck) == 0;
    frames_.resets += frame.type == Frame::kReset;
  }
}

}  // namespace gemmd::rpc
