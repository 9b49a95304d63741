#include "service/rpc/frame_counter.h"

#include <algorithm>
#include <cstring>

namespace gemmd::rpc {
namespace {

enum Type : uint8_t { kData = 0, kHeaders = 1, kPing = 6, kContinuation = 9 };
constexpr uint8_t kAck = 1;

// gRPC takes 8 KiB of headers, in frames of up to 16 KiB.
constexpr int64_t kMaxHeadersBytes = 64 << 10;
constexpr int64_t kMaxContinuations = 32;

}  // namespace

FrameCounter::Frames FrameCounter::Count(absl::Span<const char> bytes) {
  Frames frames;
  while (!bytes.empty()) {
    const auto left = static_cast<int64_t>(bytes.size());
    if (skip_bytes_ > 0) {
      const int64_t skipped = std::min(skip_bytes_, left);
      skip_bytes_ -= skipped;
      bytes.remove_prefix(skipped);
      continue;
    }
    const int64_t taken = std::min(kHeaderBytes - header_bytes_, left);
    std::memcpy(header_ + header_bytes_, bytes.data(), taken);
    header_bytes_ += taken;
    bytes.remove_prefix(taken);
    if (header_bytes_ == kHeaderBytes) EndHeader(frames);
  }
  return frames;
}

void FrameCounter::EndHeader(Frames& frames) {
  header_bytes_ = 0;
  skip_bytes_ = header_[0] << 16 | header_[1] << 8 | header_[2];
  const uint8_t type = header_[3];
  const uint32_t stream = (header_[5] & 0x7fu) << 24 | header_[6] << 16 |
                          header_[7] << 8 | header_[8];
  if (type == kHeaders || type == kContinuation) {
    if (type == kHeaders) headers_bytes_ = headers_frames_ = 0;
    headers_bytes_ += skip_bytes_;
    headers_frames_ += type == kContinuation;
    endless_headers_ |= headers_bytes_ > kMaxHeadersBytes ||
                        headers_frames_ > kMaxContinuations;
  }
  if (type == kHeaders && stream > last_stream_) {
    last_stream_ = stream;
    ++frames.calls;
  } else if (type != kContinuation && (type != kData || skip_bytes_ == 0)) {
    ++frames.idle;  // Trailers too.
    frames.pings += type == kPing && (header_[4] & kAck) == 0;
  }
}

}  // namespace gemmd::rpc
