// Looks at the frames of a client where its bytes enter the process: counts the
// calls that it begins, and what nobody needs. Thread-compatible.
//
// https://www.rfc-editor.org/rfc/rfc9113#name-http-frames: after a preface of
// 24 bytes all is frames, each with a header of 9 bytes that says how long it
// is. Of a client that keeps to no protocol it counts nonsense, which gRPC
// refuses.
#ifndef GEMMD_SERVICE_RPC_FRAME_COUNTER_H_
#define GEMMD_SERVICE_RPC_FRAME_COUNTER_H_

#include <cstdint>

#include "absl/types/span.h"

namespace gemmd::rpc {

class FrameCounter {
 public:
  struct Frames {
    int64_t calls = 0;  // That begin.
    // That bring neither a call nor bytes: settings, pings, windows,
    // priorities, resets, empty data, and whatever is unknown.
    int64_t idle = 0;
    int64_t pings = 0;  // Of these, pings that want an answer.
  };
  // The frames of `bytes`, which follow those of the last time.
  Frames Count(absl::Span<const char> bytes);

  // Whether the headers of one call have become longer than any are, or come in
  // more frames. gRPC 1.51 holds them until they end and reads them from their
  // start with every frame.
  bool endless_headers() const { return endless_headers_; }

 private:
  static constexpr int64_t kPrefaceBytes = 24;
  static constexpr int64_t kHeaderBytes = 9;

  // The header of a frame is complete.
  void EndHeader(Frames& frames);

  int64_t skip_bytes_ = kPrefaceBytes;  // Until the next header.
  int64_t header_bytes_ = 0;            // What there is of it.
  uint8_t header_[kHeaderBytes] = {};
  uint32_t last_stream_ = 0;
  int64_t headers_bytes_ = 0;   // Of the call whose headers came last,
  int64_t headers_frames_ = 0;  // and the frames after their first.
  bool endless_headers_ = false;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_FRAME_COUNTER_H_
