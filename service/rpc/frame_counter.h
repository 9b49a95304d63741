// Counts the calls that a client begins where its bytes enter the process.
// Thread-compatible.
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
  // The calls that begin in `bytes`, which follow those of the last time.
  int64_t Count(absl::Span<const char> bytes);

 private:
  static constexpr int64_t kPrefaceBytes = 24;
  static constexpr int64_t kHeaderBytes = 9;

  // Whether the header that is complete begins a call.
  bool EndHeader();

  int64_t skip_bytes_ = kPrefaceBytes;  // Until the next header.
  int64_t header_bytes_ = 0;            // What there is of it.
  uint8_t header_[kHeaderBytes] = {};
  uint32_t last_stream_ = 0;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_FRAME_COUNTER_H_
