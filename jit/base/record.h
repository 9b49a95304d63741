// A record: a list of tagged fields in bytes, the framing of cache entries and
// of what compile workers are told.
//
// Each field is a tag (u32), a length (u64), both little-endian, and that many
// bytes. Tags may repeat and keep their order; readers ignore tags that they
// do not know, so that a field can be added without a new format.
#ifndef GEMMD_JIT_BASE_RECORD_H_
#define GEMMD_JIT_BASE_RECORD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd::jit {

// Thread-compatible.
class RecordWriter {
 public:
  void Add(uint32_t tag, absl::string_view value);
  void AddInt(uint32_t tag, int64_t value);

  std::string Release() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Fields of a record, as views into the bytes that were parsed, which must
// outlive it. Allocates no more than a small multiple of their size.
class Record {
 public:
  // DATA_LOSS when `bytes` is not exactly a list of fields.
  static absl::StatusOr<Record> Parse(absl::string_view bytes);

  // DATA_LOSS when there is not exactly one.
  absl::StatusOr<absl::string_view> Get(uint32_t tag) const;
  absl::StatusOr<int64_t> GetInt(uint32_t tag) const;
  std::vector<absl::string_view> GetAll(uint32_t tag) const;

 private:
  struct Field {
    uint32_t tag;
    absl::string_view value;
  };

  std::vector<Field> fields_;
};

// Little-endian integers at the end of a string and at the start of a view.
void AppendU32(std::string& bytes, uint32_t value);
void AppendU64(std::string& bytes, uint64_t value);
// False when fewer bytes are left; else the integer is removed from `bytes`.
bool TakeU32(absl::string_view& bytes, uint32_t& value);
bool TakeU64(absl::string_view& bytes, uint64_t& value);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_BASE_RECORD_H_
