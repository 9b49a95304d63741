#include "service/rpc/kserve/contents.h"

#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "inference/service.pb.h"
#include "jit/base/status.h"
#include "service/rpc/kserve/datatype.h"
#include "service/rpc/kserve/text.h"
#include "service/rpc/wire_reader.h"

namespace gemmd::rpc::kserve {
namespace {

using Contents = inference::InferTensorContents;

// Where elements of a type are; 0: nowhere.
uint32_t FieldOf(jit::DataType type) {
  switch (type) {
    case jit::DataType::kF32:
      return Contents::kFp32ContentsFieldNumber;
    case jit::DataType::kS8:
    case jit::DataType::kS32:
      return Contents::kIntContentsFieldNumber;
    case jit::DataType::kU8:
      return Contents::kUintContentsFieldNumber;
    default:
      return 0;
  }
}

absl::Status WrongContents(const Input& input) {
  const uint32_t field = FieldOf(input.type);
  return absl::InvalidArgumentError(absl::StrCat(
      "the contents of input ", Quoted(input.name), " are none of ",
      NameOf(input.type), "; allowed: ",
      field == 0 ? "raw_input_contents alone"
                 : absl::StrCat(
                       Contents::descriptor()->FindFieldByNumber(field)->name(),
                       ", packed")));
}

absl::Status WrongCount(const Input& input) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the contents of input ", Quoted(input.name),
      " have more or fewer elements than its shape, ", input.elements));
}

struct Limits {
  int64_t least;
  int64_t most;
};

template <typename T>
constexpr Limits LimitsOf() {
  return {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
}

Limits LimitsOf(jit::DataType type) {
  switch (type) {
    case jit::DataType::kS8:
      return LimitsOf<int8_t>();
    case jit::DataType::kU8:
      return LimitsOf<uint8_t>();
    default:
      return LimitsOf<int32_t>();
  }
}

}  // namespace

absl::Status ReadContents(const Pieces& contents, Input& input) {
  const uint32_t field = FieldOf(input.type);
  Pieces found;
  WireReader reader(contents);
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) break;
    if (reader.number() > Contents::kBytesContentsFieldNumber) continue;
    if (reader.number() != field || !reader.length_delimited()) {
      return WrongContents(input);
    }
    found.insert(found.end(), reader.value().begin(), reader.value().end());
  }
  if (input.type == jit::DataType::kF32) {
    input.data = std::move(found);
    return absl::OkStatus();
  }
  // A number takes a byte at least: the decoded ones need no more than four
  // times what was sent.
  if (SizeOf(found) < input.elements) {
    return field == 0 ? WrongContents(input) : WrongCount(input);
  }
  if (input.elements == 0 && !found.empty()) return WrongCount(input);
  input.numbers = std::move(found);
  return absl::OkStatus();
}

absl::StatusOr<std::string> DecodeNumbers(const Input& input) {
  const Limits limits = LimitsOf(input.type);
  const int size = jit::BytesOf(input.type);
  std::string bytes(input.bytes(), '\0');
  size_t at = 0;
  uint64_t value = 0;
  int shift = 0;
  for (const Piece& piece : input.numbers) {
    for (const char next : piece) {
      if (shift > 63) return WrongCount(input);
      const auto bits = static_cast<uint8_t>(next);
      value |= uint64_t{bits & 0x7fu} << shift;
      shift += 7;
      if (bits >= 0x80) continue;
      const auto number = static_cast<int64_t>(value);
      if (number < limits.least || number > limits.most) {
        return absl::InvalidArgumentError(
            absl::StrCat("the contents of input ", Quoted(input.name), " hold ",
                         number, "; allowed for ", NameOf(input.type), ": ",
                         limits.least, " to ", limits.most));
      }
      if (at == bytes.size()) return WrongCount(input);
      // Little-endian, as this machine is.
      std::memcpy(&bytes[at], &value, size);
      at += size;
      value = 0;
      shift = 0;
    }
  }
  if (at != bytes.size() || shift != 0) return WrongCount(input);
  return bytes;
}

}  // namespace gemmd::rpc::kserve
