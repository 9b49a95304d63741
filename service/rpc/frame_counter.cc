#include "service/rpc/frame_counter.h"

#include <algorithm>
#include <cstring>

namespace gemmd::rpc {
namespace {

constexpr uint8_t kHeaders = 1;

}  // namespace

int64_t FrameCounter::Count(absl::Span<const char> bytes) {
  int64_t begun = 0;
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
    if (header_bytes_ == kHeaderBytes && EndHeader()) ++begun;
  }
  return begun;
}

bool FrameCounter::EndHeader() {
  header_bytes_ = 0;
  skip_bytes_ = header_[0] << 16 | header_[1] << 8 | header_[2];
  const uint8_t type = header_[3];
  const uint32_t stream = (header_[5] & 0x7fu) << 24 | header_[6] << 16 |
                          header_[7] << 8 | header_[8];
  if (type != kHeaders || stream <= last_stream_) return false;  // Trailers.
  last_stream_ = stream;
  return true;
}

}  // namespace gemmd::rpc
