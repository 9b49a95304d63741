// What has arrived for calls that may not have read it: gRPC 1.51 holds it and
// tells nobody. Flow control bounds the bytes of a stream, and not the buffers
// that they keep: of calls that read nothing more, 64 bytes here and there were
// gigabytes of what had long been used.
//
// https://www.rfc-editor.org/rfc/rfc9113#name-window_update: gRPC lets a client
// send as much more as a call has read, or waits for. What it has not given
// back is all that can be unread. Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_UNREAD_BYTES_H_
#define GEMMD_SERVICE_RPC_UNREAD_BYTES_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "service/rpc/frame_reader.h"
#include "service/rpc/kept_buffers.h"

namespace gemmd::rpc {

class UnreadBytes {
 public:
  // By the buffers that they keep.
  int64_t counted_bytes() const { return buffers_.counted_bytes(); }

  // As HalfMessages'. `open`: the stream of the frame was, until it came.
  void Arrive(absl::Span<const char> bytes) { buffers_.Arrive(bytes); }
  void Begin(const Frame& frame, bool open);
  void Data(uint32_t stream, int64_t bytes);
  // The daemon begins to say, and says, how much more a client may send: four
  // bytes.
  void BeginWindow() { more_ = 1; }
  void Window(uint32_t stream, absl::Span<const char> bytes);
  // The daemon has ended the stream, or the client has taken it back.
  void End(uint32_t stream);

 private:
  static constexpr uint64_t kNoMore = uint64_t{1} << 32;

  // Consecutive bytes of one buffer.
  struct Part {
    int64_t buffer = 0;
    int64_t bytes = 0;
  };
  struct Stream {
    int64_t unread_bytes = 0;  // At most; below 0: more may come.
    int64_t kept_bytes = 0;    // No fewer, but for those that are below 0.
    std::vector<Part> parts;   // Of these.
  };

  // Lets go of what has been read.
  void Trim(Stream& stream);

  absl::flat_hash_map<uint32_t, Stream> streams_;  // That brought anything.
  KeptBuffers buffers_;
  bool counts_ = false;  // The frame that comes is of an open stream.
  uint64_t more_ = 1;    // A 1, and what has left of the number.
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_UNREAD_BYTES_H_
