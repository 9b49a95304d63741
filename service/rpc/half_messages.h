// What has arrived of messages that are not complete, exactly: gRPC 1.51 holds
// it and tells nobody. Follows the frames of both directions, as a stream that
// either side has ended holds nothing, however much of it still arrives.
//
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md: the data of a
// stream are messages, each after 5 bytes, of which 4 say how long it is.
// Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_HALF_MESSAGES_H_
#define GEMMD_SERVICE_RPC_HALF_MESSAGES_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "service/rpc/frame_reader.h"
#include "service/rpc/kept_buffers.h"

namespace gemmd::rpc {

class HalfMessages {
 public:
  // Of all streams, with the 5 bytes.
  int64_t bytes() const { return bytes_; }
  // What they count for, with the buffers that they keep.
  int64_t counted_bytes() const {
    return std::max(bytes_, buffers_.counted_bytes());
  }
  // Of those that began no later than `last`.
  int64_t BytesUntil(uint32_t last) const;
  // The one that began last.
  uint32_t last_stream() const { return last_stream_; }

  bool IsOpen(uint32_t stream) const { return streams_.contains(stream); }
  // Whether a message began that is neither plain nor compressed: gRPC takes it
  // for one that is empty.
  bool malformed() const { return malformed_; }

  // More is there, in a buffer of gRPC.
  void Arrive(absl::Span<const char> bytes) { buffers_.Arrive(bytes); }
  // Of these: a frame of the client begins; more of the data of its `stream` is
  // there.
  void Begin(const Frame& frame);
  void Data(uint32_t stream, absl::Span<const char> bytes);
  // The daemon has ended the stream.
  void End(uint32_t stream);
  // It begins to say, and says, which stream is the last that it takes: the
  // first four bytes. The last time that it does counts.
  void BeginGoAway() { go_away_ = 1; }
  void GoAway(absl::Span<const char> bytes);

 private:
  static constexpr int64_t kPrefixBytes = 5;
  static constexpr uint8_t kCompressed = 1;  // Its first; else 0.
  static constexpr uint64_t kNoEnd = uint64_t{1} << 32;

  struct Half {
    uint8_t prefix[kPrefixBytes] = {};
    int64_t bytes = 0;                 // That are there,
    int64_t all_bytes = kPrefixBytes;  // of so many, as far as is known.
    std::vector<int64_t> buffers;      // In which they came.
  };

  // `half` is in the buffer that fills; in none any more.
  void Keep(Half& half);
  void Release(const Half& half);

  absl::flat_hash_map<uint32_t, Half> streams_;  // That are open.
  uint32_t last_stream_ = 0;
  uint32_t beginning_ = 0;  // Its last frame begins a message; 0: none does.
  bool malformed_ = false;
  uint64_t most_stream_ = kNoEnd;  // gRPC passes over those that begin later.
  uint64_t go_away_ = 1;           // A 1, and what has left of the number.
  int64_t bytes_ = 0;
  KeptBuffers buffers_;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_HALF_MESSAGES_H_
