// Walks the top-level fields of a serialised protobuf message that lies in
// pieces, and hands out length-delimited fields in place. What any protobuf
// library serialises is understood; groups, which proto3 does not have, are
// refused. Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_WIRE_READER_H_
#define GEMMD_SERVICE_RPC_WIRE_READER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "service/rpc/message.h"

namespace gemmd::rpc {

class WireReader {
 public:
  // Of one message: some more than any that we know has.
  static constexpr int kMaxFields = 64;

  // The pieces, and what they point to, outlive the reader.
  explicit WireReader(absl::Span<const Piece> pieces,
                      int max_fields = kMaxFields)
      : pieces_(pieces), remaining_(SizeOf(pieces)), max_fields_(max_fields) {
    SkipEmpty();
  }

  // Moves to the next field; false at the end of the message.
  // INVALID_ARGUMENT when the bytes are not a protobuf message.
  absl::StatusOr<bool> Next();

  // Of the current field.
  uint32_t number() const { return number_; }
  bool length_delimited() const { return length_delimited_; }
  // The value of one that is a number of variable length; 0 of others.
  bool is_varint() const { return is_varint_; }
  uint64_t varint() const { return varint_; }
  // The bytes of a length-delimited field, in place.
  const Pieces& value() const { return value_; }

 private:
  absl::StatusOr<uint64_t> ReadVarint();
  // Appends to `taken` unless it is null.
  absl::Status Take(uint64_t count, Pieces* taken);
  void Advance(size_t count);
  void SkipEmpty();

  absl::Span<const Piece> pieces_;
  size_t position_ = 0;  // In the first piece.
  uint64_t remaining_;
  const int max_fields_;
  int fields_ = 0;
  uint32_t number_ = 0;
  bool length_delimited_ = false;
  bool is_varint_ = false;
  uint64_t varint_ = 0;
  Pieces value_;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_WIRE_READER_H_
