#include "service/rpc/kept_buffers.h"

namespace gemmd::rpc {

void KeptBuffers::Arrive(absl::Span<const char> bytes) {
  if (bytes.data() != filled_) {
    ++filling_;
    filled_bytes_ = 0;
  }
  filled_ = bytes.data() + bytes.size();
  const auto size = static_cast<int64_t>(bytes.size());
  filled_bytes_ += size;
  const auto kept = buffers_.find(filling_);
  if (kept == buffers_.end()) return;
  kept->second.bytes += size;
  bytes_ += size;
}

void KeptBuffers::Keep() {
  Buffer& buffer = buffers_[filling_];
  if (++buffer.users > 1) return;
  buffer.bytes = filled_bytes_;
  bytes_ += filled_bytes_;
}

void KeptBuffers::Release(int64_t number) {
  const auto kept = buffers_.find(number);
  if (--kept->second.users > 0) return;
  bytes_ -= kept->second.bytes;
  buffers_.erase(kept);
}

}  // namespace gemmd::rpc
