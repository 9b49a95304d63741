#include "service/rpc/half_messages.h"

#include <algorithm>
#include <cstring>

namespace gemmd::rpc {

int64_t HalfMessages::BytesUntil(uint32_t last) const {
  int64_t bytes = 0;
  for (const auto& [stream, half] : streams_) {
    if (stream <= last) bytes += half.bytes;
  }
  return bytes;
}

void HalfMessages::Begin(const Frame& frame) {
  if (frame.type == Frame::kHeaders && frame.stream > last_stream_) {
    last_stream_ = frame.stream;
    streams_.try_emplace(frame.stream);
  }
  // What the last frame brings completes a message, or gRPC throws it away.
  if (frame.ends_stream()) End(frame.stream);
}

void HalfMessages::Data(uint32_t stream, absl::Span<const char> bytes) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  Half& half = found->second;
  while (!bytes.empty()) {
    const int64_t part =
        std::min<int64_t>(half.all_bytes - half.bytes, bytes.size());
    if (half.bytes < kPrefixBytes) {
      std::memcpy(half.prefix + half.bytes, bytes.data(), part);
    }
    half.bytes += part;
    bytes_ += part;
    bytes.remove_prefix(part);
    if (half.bytes == kPrefixBytes) {
      half.all_bytes =
          kPrefixBytes + (int64_t{half.prefix[1]} << 24 | half.prefix[2] << 16 |
                          half.prefix[3] << 8 | half.prefix[4]);
    }
    if (half.bytes == half.all_bytes) {
      bytes_ -= half.bytes;
      half = Half();
    }
  }
}

void HalfMessages::End(uint32_t stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  bytes_ -= found->second.bytes;
  streams_.erase(found);
}

}  // namespace gemmd::rpc
