// The buffers of gRPC that what it holds keeps: each part of a message by the
// buffer in which it came, of up to 64 KiB, with all that came there, though
// that was long used. Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_KEPT_BUFFERS_H_
#define GEMMD_SERVICE_RPC_KEPT_BUFFERS_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

namespace gemmd::rpc {

class KeptBuffers {
 public:
  // More is there: `bytes` go on where the last ones ended, or are in another
  // buffer.
  void Arrive(absl::Span<const char> bytes);
  // The number of the one that fills.
  int64_t filling() const { return filling_; }

  // One part more keeps the one that fills; one less keeps `number`.
  void Keep();
  void Release(int64_t number);

  // What they count for. Buffers are shared by those who send at a time; more
  // than four times the bytes is the work of somebody who sends little parts
  // among much else.
  int64_t counted_bytes() const { return bytes_ / kMostShared; }

 private:
  static constexpr int64_t kMostShared = 4;

  struct Buffer {
    int64_t bytes = 0;
    int64_t users = 0;  // Parts.
  };

  absl::flat_hash_map<int64_t, Buffer> buffers_;  // That are kept, by number.
  int64_t bytes_ = 0;                             // Of these.
  int64_t filling_ = 0;                           // The one that fills,
  int64_t filled_bytes_ = 0;
  const char* filled_ = nullptr;  // up to here.
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_KEPT_BUFFERS_H_
