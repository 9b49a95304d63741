// What has arrived of messages that are not complete, exactly: gRPC 1.51 holds
// it and tells nobody. Follows the frames of both directions, as a stream that
// either side has ended holds nothing, however much of it still arrives.
//
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md: the data of a
// stream are messages, each after 5 bytes, of which 4 say how long it is.
// Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_HALF_MESSAGES_H_
#define GEMMD_SERVICE_RPC_HALF_MESSAGES_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "service/rpc/frame_reader.h"

namespace gemmd::rpc {

class HalfMessages {
 public:
  // Of all streams, with the 5 bytes.
  int64_t bytes() const { return bytes_; }
  // Of those that began no later than `last`.
  int64_t BytesUntil(uint32_t last) const;
  // The one that began last.
  uint32_t last_stream() const { return last_stream_; }

  bool IsOpen(uint32_t stream) const { return streams_.contains(stream); }

  // A frame of the client begins; more of the data of its `stream` is there.
  void Begin(const Frame& frame);
  void Data(uint32_t stream, absl::Span<const char> bytes);
  // The daemon has ended the stream.
  void End(uint32_t stream);

 private:
  static constexpr int64_t kPrefixBytes = 5;

  struct Half {
    uint8_t prefix[kPrefixBytes] = {};
    int64_t bytes = 0;                 // That are there,
    int64_t all_bytes = kPrefixBytes;  // of so many, as far as is known.
  };

  absl::flat_hash_map<uint32_t, Half> streams_;  // That are open.
  uint32_t last_stream_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_HALF_MESSAGES_H_
