// Reads a protobuf message from the slices in which it arrived.
// Thread-compatible.
#ifndef GEMMD_CLIENTS_CPP_SLICE_READER_H_
#define GEMMD_CLIENTS_CPP_SLICE_READER_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace gemmd::client {

class SliceReader {
 public:
  // A field: the value of one of 32 bits, or the bytes that follow one that is
  // length-delimited.
  struct Field {
    int number = 0;
    bool delimited = false;
    uint64_t length = 0;
    std::optional<uint32_t> fixed32;
  };

  // INTERNAL when gRPC cannot give the slices.
  static absl::StatusOr<SliceReader> Create(const grpc::ByteBuffer& message);

  bool done() const { return remaining_ == 0; }
  // Bytes until the end.
  uint64_t remaining() const { return remaining_; }

  // The next field. What follows one that is length-delimited must then be
  // read or skipped; other values are behind. INTERNAL when malformed.
  absl::StatusOr<Field> ReadField();
  // Moves on by to.size() bytes, at most the length of the field just read.
  void Read(absl::Span<char> to);
  std::string Read(uint64_t length);
  void Skip(uint64_t length);

 private:
  explicit SliceReader(std::vector<grpc::Slice> slices);

  bool ReadVarint(uint64_t& value);
  // Calls use(data, size) for each piece of the next `length` bytes.
  template <typename Use>
  void Advance(uint64_t length, Use use);

  std::vector<grpc::Slice> slices_;
  size_t slice_ = 0;   // First slice that is not read up.
  size_t offset_ = 0;  // Bytes of it that are read.
  uint64_t remaining_ = 0;
};

// Tag and length of a length-delimited field.
std::string FieldPrefix(int number, uint64_t length);

}  // namespace gemmd::client

#endif  // GEMMD_CLIENTS_CPP_SLICE_READER_H_
