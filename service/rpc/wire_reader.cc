#include "service/rpc/wire_reader.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "jit/base/status.h"

namespace gemmd::rpc {
namespace {

// https://protobuf.dev/programming-guides/encoding/#structure
enum WireType : uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kLengthDelimited = 2,
  kFixed32 = 5,
};

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the request is not a protobuf message: ", what));
}

}  // namespace

absl::StatusOr<bool> WireReader::Next() {
  value_.clear();
  varint_ = 0;
  if (remaining_ == 0) return false;
  if (++fields_ > max_fields_) {
    return Malformed(absl::StrCat("more than ", max_fields_, " fields"));
  }
  ASSIGN_OR_RETURN(const uint64_t tag, ReadVarint());
  if (tag >> 32 != 0 || tag >> 3 == 0) return Malformed("bad field number");
  number_ = static_cast<uint32_t>(tag >> 3);
  const uint32_t type = tag & 7;
  length_delimited_ = type == kLengthDelimited;
  is_varint_ = type == kVarint;
  switch (type) {
    case kVarint: {
      ASSIGN_OR_RETURN(varint_, ReadVarint());
      return true;
    }
    case kFixed64:
      RETURN_IF_ERROR(Take(8, nullptr));
      return true;
    case kFixed32:
      RETURN_IF_ERROR(Take(4, nullptr));
      return true;
    case kLengthDelimited: {
      ASSIGN_OR_RETURN(const uint64_t length, ReadVarint());
      RETURN_IF_ERROR(Take(length, &value_));
      return true;
    }
    default:
      return Malformed(absl::StrCat("wire type ", type));
  }
}

absl::StatusOr<uint64_t> WireReader::ReadVarint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (remaining_ == 0) return Malformed("a number that is cut off");
    const uint64_t bits = static_cast<uint8_t>(pieces_.front()[position_]);
    Advance(1);
    value |= (bits & 0x7f) << shift;
    if (bits < 0x80) return value;
  }
  return Malformed("a number of more than ten bytes");
}

absl::Status WireReader::Take(uint64_t count, Pieces* taken) {
  if (count > remaining_) {
    return Malformed(absl::StrCat("a field of ", count, " bytes where ",
                                  remaining_, " are left"));
  }
  while (count > 0) {
    const Piece rest = pieces_.front().subspan(position_);
    const size_t part = std::min<uint64_t>(count, rest.size());
    if (taken != nullptr) taken->push_back(rest.first(part));
    Advance(part);
    count -= part;
  }
  return absl::OkStatus();
}

void WireReader::Advance(size_t count) {
  remaining_ -= count;
  position_ += count;
  SkipEmpty();
}

void WireReader::SkipEmpty() {
  while (!pieces_.empty() && position_ == pieces_.front().size()) {
    pieces_.remove_prefix(1);
    position_ = 0;
  }
}

}  // namespace gemmd::rpc
