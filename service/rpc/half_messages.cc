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

void HalfMessages::Keep(Half& half) {
  if (!half.buffers.empty() && half.buffers.back() == buffers_.filling()) {
    return;
  }
  half.buffers.push_back(buffers_.filling());
  buffers_.Keep();
}

void HalfMessages::Release(const Half& half) {
  for (const int64_t number : half.buffers) buffers_.Release(number);
}

void HalfMessages::Begin(const Frame& frame) {
  if (frame.may_begin_stream() && frame.stream > last_stream_ &&
      frame.stream <= most_stream_) {
    last_stream_ = frame.stream;
    streams_.try_emplace(frame.stream);
  }
  // What the last frame brings completes a message, or gRPC throws it away.
  if (!frame.ends_stream()) return;
  const auto found = streams_.find(frame.stream);
  const bool begins = found != streams_.end() && found->second.bytes == 0;
  beginning_ = begins ? frame.stream : 0;
  End(frame.stream);
}

void HalfMessages::Data(uint32_t stream, absl::Span<const char> bytes) {
  if (stream == beginning_ && !bytes.empty()) {
    malformed_ |= static_cast<uint8_t>(bytes[0]) > kCompressed;
    beginning_ = 0;
  }
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
      malformed_ |= half.prefix[0] > kCompressed;
      half.all_bytes =
          kPrefixBytes + (int64_t{half.prefix[1]} << 24 | half.prefix[2] << 16 |
                          half.prefix[3] << 8 | half.prefix[4]);
    }
    if (half.bytes == half.all_bytes) {
      bytes_ -= half.bytes;
      Release(half);
      half = Half();
    }
  }
  if (half.bytes > 0) Keep(half);
}

void HalfMessages::End(uint32_t stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  bytes_ -= found->second.bytes;
  Release(found->second);
  streams_.erase(found);
}

void HalfMessages::GoAway(absl::Span<const char> bytes) {
  if (go_away_ >= kNoEnd) return;  // The rest says why.
  for (size_t i = 0; i < bytes.size() && go_away_ < kNoEnd; ++i) {
    go_away_ = go_away_ << 8 | static_cast<uint8_t>(bytes[i]);
  }
  if (go_away_ < kNoEnd) return;
  most_stream_ = go_away_ - kNoEnd;
  absl::erase_if(streams_, [this](const auto& stream) {
    if (stream.first <= most_stream_) return false;
    bytes_ -= stream.second.bytes;
    Release(stream.second);
    return true;
  });
}

}  // namespace gemmd::rpc
