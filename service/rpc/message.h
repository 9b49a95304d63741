// A received message as the transport delivered it: slices, never joined.
// Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_MESSAGE_H_
#define GEMMD_SERVICE_RPC_MESSAGE_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace gemmd::rpc {

using Piece = absl::Span<const char>;
using Pieces = std::vector<Piece>;

int64_t SizeOf(absl::Span<const Piece> pieces);
std::string Join(absl::Span<const Piece> pieces);
std::string Join(const grpc::ByteBuffer& message);

// Owns the slices of one message.
class Message {
 public:
  Message() = default;
  // Takes what `buffer` has, or copies it where that would keep much else.
  explicit Message(grpc::ByteBuffer& buffer);
  Message(Message&&) = default;
  Message& operator=(Message&&) = delete;  // See buffer_.

  const Pieces& pieces() const { return pieces_; }
  int64_t size() const { return size_; }
  // Removes the last `count` bytes, or as many as there are, and returns them.
  std::string TakeLast(int64_t count);

 private:
  // Finds the pieces of what `buffer_` has.
  void Look();

  // First, and so destroyed last: it lets the slices go in a context of gRPC,
  // in which gRPC 1.51 may do what comes of it. A slice alone has none.
  std::unique_ptr<grpc::ByteBuffer> buffer_;
  // Small slices hold their bytes themselves: never moved once dumped.
  std::vector<grpc::Slice> slices_;
  Pieces pieces_;
  int64_t size_ = 0;
};

// Bytes of consecutive messages, taken from the front in any sizes.
class PieceQueue {
 public:
  // Appends `pieces`, which lie in `message`; copies what is small.
  void Append(Message message, Pieces pieces);

  int64_t size() const { return size_; }
  // Of the messages that are kept for them.
  int64_t held_bytes() const { return held_bytes_; }
  // The first `count` bytes, valid until they are dropped.
  Pieces Front(int64_t count) const;
  void Drop(int64_t count);
  // Copies what is left, so that it keeps nothing else.
  void Detach();

 private:
  struct Part {
    Message owner;
    Pieces pieces;  // What is left of them; not empty.
  };

  void Keep(Message message, Pieces pieces);
  void AppendCopy(const std::string& bytes);

  std::deque<Part> parts_;
  int64_t size_ = 0;
  int64_t held_bytes_ = 0;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_MESSAGE_H_
