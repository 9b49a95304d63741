#include "service/rpc/unread_bytes.h"

namespace gemmd::rpc {

void UnreadBytes::Begin(const Frame& frame, bool open) {
  counts_ = open && frame.type == Frame::kData;
  if (frame.type == Frame::kReset) End(frame.stream);
}

void UnreadBytes::Data(uint32_t stream, int64_t bytes) {
  if (!counts_) return;
  Stream& there = streams_[stream];
  there.unread_bytes += bytes;
  if (there.unread_bytes > 0) {
    if (there.parts.empty() ||
        there.parts.back().buffer != buffers_.filling()) {
      there.parts.push_back({.buffer = buffers_.filling()});
      buffers_.Keep();
    }
    there.parts.back().bytes += bytes;
    there.kept_bytes += bytes;
  }
  Trim(there);
}

void UnreadBytes::Window(uint32_t stream, absl::Span<const char> bytes) {
  for (size_t i = 0; i < bytes.size() && more_ < kNoMore; ++i) {
    more_ = more_ << 8 | static_cast<uint8_t>(bytes[i]);
    if (more_ < kNoMore) continue;
    const auto found = streams_.find(stream);
    if (found == streams_.end()) return;
    found->second.unread_bytes -= static_cast<int64_t>(more_ - kNoMore);
    Trim(found->second);
  }
}

void UnreadBytes::End(uint32_t stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  for (const Part& part : found->second.parts) buffers_.Release(part.buffer);
  streams_.erase(found);
}

void UnreadBytes::Trim(Stream& stream) {
  auto part = stream.parts.begin();
  while (part != stream.parts.end() &&
         stream.kept_bytes - part->bytes >= stream.unread_bytes) {
    stream.kept_bytes -= part->bytes;
    buffers_.Release(part->buffer);
    ++part;
  }
  stream.parts.erase(stream.parts.begin(), part);
}

}  // namespace gemmd::rpc
