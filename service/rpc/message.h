// A received message as the transport delivered it: slices, never joined.
// Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_MESSAGE_H_
#define GEMMD_SERVICE_RPC_MESSAGE_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace gemmd::rpc {

using Piece = absl::Span<const char>;
using Pieces = std::vector<Piece>;

int64_t SizeOf(absl::Span<const Piece> pieces);
std::string Join(absl::Span<const Piece> pieces);

// Owns the slices of one message.
class Message {
 public:
  Message() = default;
  explicit Message(const grpc::ByteBuffer& buffer);
  Message(Message&&) = default;
  Message& operator=(Message&&) = default;

  const Pieces& pieces() const { return pieces_; }
  int64_t size() const { return SizeOf(pieces_); }

 private:
  // Small slices hold their bytes themselves: never moved once dumped.
  std::vector<grpc::Slice> slices_;
  Pieces pieces_;
};

// Bytes of consecutive messages, taken from the front in any sizes.
class PieceQueue {
 public:
  // Appends `pieces`, which lie in `message`.
  void Append(Message message, Pieces pieces);

  int64_t size() const { return size_; }
  // The first `count` bytes, valid until they are dropped.
  Pieces Front(int64_t count) const;
  void Drop(int64_t count);

 private:
  struct Part {
    Message owner;
    Pieces pieces;  // What is left of them; not empty.
  };

  std::deque<Part> parts_;
  int64_t size_ = 0;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_MESSAGE_H_
