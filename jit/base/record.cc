#include "jit/base/record.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"

namespace gemmd::jit {
namespace {

template <typename Integer>
void Append(std::string& bytes, Integer value) {
  for (size_t i = 0; i < sizeof(Integer); ++i) {
    bytes.push_back(static_cast<char>(value >> (8 * i)));
  }
}

template <typename Integer>
bool Take(absl::string_view& bytes, Integer& value) {
  if (bytes.size() < sizeof(Integer)) return false;
  value = 0;
  for (size_t i = 0; i < sizeof(Integer); ++i) {
    value |= Integer{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  bytes.remove_prefix(sizeof(Integer));
  return true;
}

}  // namespace

void AppendU32(std::string& bytes, uint32_t value) { Append(bytes, value); }
void AppendU64(std::string& bytes, uint64_t value) { Append(bytes, value); }
bool TakeU32(absl::string_view& bytes, uint32_t& value) {
  return Take(bytes, value);
}
bool TakeU64(absl::string_view& bytes, uint64_t& value) {
  return Take(bytes, value);
}

void RecordWriter::Add(uint32_t tag, absl::string_view value) {
  AppendU32(bytes_, tag);
  AppendU64(bytes_, value.size());
  bytes_.append(value.data(), value.size());
}

void RecordWriter::AddInt(uint32_t tag, int64_t value) {
  std::string bytes;
  AppendU64(bytes, static_cast<uint64_t>(value));
  Add(tag, bytes);
}

absl::StatusOr<Record> Record::Parse(absl::string_view bytes) {
  Record record;
  while (!bytes.empty()) {
    Field field;
    uint64_t length;
    if (!TakeU32(bytes, field.tag) || !TakeU64(bytes, length) ||
        length > bytes.size()) {
      return absl::DataLossError("record ends inside a field");
    }
    field.value = bytes.substr(0, length);
    bytes.remove_prefix(length);
    record.fields_.push_back(field);
  }
  return record;
}

std::vector<absl::string_view> Record::GetAll(uint32_t tag) const {
  std::vector<absl::string_view> values;
  for (const Field& field : fields_) {
    if (field.tag == tag) values.push_back(field.value);
  }
  return values;
}

absl::StatusOr<absl::string_view> Record::Get(uint32_t tag) const {
  const std::vector<absl::string_view> values = GetAll(tag);
  if (values.size() != 1) {
    return absl::DataLossError(absl::StrCat(
        "record has ", values.size(), " fields of tag ", tag, " instead of 1"));
  }
  return values[0];
}

absl::StatusOr<int64_t> Record::GetInt(uint32_t tag) const {
  ASSIGN_OR_RETURN(absl::string_view bytes, Get(tag));
  uint64_t value;
  if (!TakeU64(bytes, value) || !bytes.empty()) {
    return absl::DataLossError(
        absl::StrCat("field of tag ", tag, " is not an integer"));
  }
  return static_cast<int64_t>(value);
}

}  // namespace gemmd::jit
