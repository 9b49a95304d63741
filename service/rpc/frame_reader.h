// Finds the frames in the bytes of one direction of a connection.
//
// https://www.rfc-editor.org/rfc/rfc9113#name-http-frames: after the preface of
// a client all is frames, each with a header of 9 bytes that says how long it
// is. Of a peer that keeps to no protocol it finds nonsense, which gRPC
// refuses. Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_FRAME_READER_H_
#define GEMMD_SERVICE_RPC_FRAME_READER_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/types/span.h"

namespace gemmd::rpc {

struct Frame {
  enum Type : uint8_t {
    kData = 0,
    kHeaders = 1,
    kReset = 3,
    kSettings = 4,
    kPing = 6,
    kGoAway = 7,
    kWindow = 8,
    kContinuation = 9
  };
  static constexpr uint8_t kAck = 1;        // Of pings and settings.
  static constexpr uint8_t kEndStream = 1;  // Of data and headers.

  int64_t bytes = 0;  // Of payload.
  uint8_t type = 0;
  uint8_t flags = 0;
  uint32_t stream = 0;

  // Where its number is higher than all before. gRPC passes over what a client
  // begins with an even one, which is a server's to give, and goes on counting
  // from the odd ones.
  bool may_begin_stream() const { return type == kHeaders && stream % 2 == 1; }
  bool ends_stream() const {
    return type == kReset ||
           ((type == kData || type == kHeaders) && (flags & kEndStream) != 0);
  }
};

class FrameReader {
 public:
  static constexpr int64_t kClientPrefaceBytes = 24;

  explicit FrameReader(int64_t preface_bytes) : left_bytes_(preface_bytes) {}

  // Of `bytes`, which follow those of the last time: calls `begin(frame)` where
  // a header is complete, and `payload(frame, part)` for what comes after it.
  template <typename Begin, typename Payload>
  void Read(absl::Span<const char> bytes, Begin&& begin, Payload&& payload) {
    while (!bytes.empty()) {
      const auto size = static_cast<int64_t>(bytes.size());
      if (left_bytes_ > 0) {
        const int64_t part = std::min(left_bytes_, size);
        left_bytes_ -= part;
        if (begun_) payload(std::as_const(frame_), bytes.subspan(0, part));
        bytes.remove_prefix(part);
        continue;
      }
      const int64_t part = std::min(kHeaderBytes - header_bytes_, size);
      std::memcpy(header_ + header_bytes_, bytes.data(), part);
      header_bytes_ += part;
      bytes.remove_prefix(part);
      if (header_bytes_ < kHeaderBytes) return;
      EndHeader();
      begin(std::as_const(frame_));
    }
  }

 private:
  static constexpr int64_t kHeaderBytes = 9;

  void EndHeader() {
    header_bytes_ = 0;
    begun_ = true;
    left_bytes_ = header_[0] << 16 | header_[1] << 8 | header_[2];
    frame_ = {.bytes = left_bytes_,
              .type = header_[3],
              .flags = header_[4],
              .stream = (header_[5] & 0x7fu) << 24 | header_[6] << 16 |
                        header_[7] << 8 | header_[8]};
  }

  int64_t left_bytes_;        // Until the next header.
  bool begun_ = false;        // The preface is over.
  int64_t header_bytes_ = 0;  // What there is of it.
  uint8_t header_[kHeaderBytes] = {};
  Frame frame_;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_FRAME_READER_H_
