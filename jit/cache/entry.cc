#include "jit/cache/entry.h"

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "jit/base/frame.h"
#include "jit/base/record.h"
#include "jit/base/status.h"
#include "jit/base/text.h"
#include "jit/cache/cache_key.h"

namespace gemmd::jit {
namespace {

constexpr FrameKind kKind = {.magic = "GEMMDKRN", .format = kCacheFormat};

// Numbers are forever: a retired one is never given to another field.
enum Tag : uint32_t {
  kKey = 1,
  kName = 2,
  kSource = 3,
  kOption = 4,  // One field per option, in order.
  kCompiler = 5,
  kLog = 6,
  kCubin = 7,
  kRegisters = 8,
  kStaticSharedMemoryBytes = 9,
  kSpillBytes = 10,
  kCompileMs = 11,
  kProvenance = 12,
};

absl::Status GetString(const Record& record, Tag tag, std::string& to) {
  ASSIGN_OR_RETURN(const absl::string_view value, record.Get(tag));
  to.assign(value.data(), value.size());
  return absl::OkStatus();
}

// Counts are small and not negative.
absl::Status GetCount(const Record& record, Tag tag, int& to) {
  ASSIGN_OR_RETURN(const int64_t value, record.GetInt(tag));
  if (value < 0 || value > std::numeric_limits<int>::max()) {
    return absl::DataLossError(
        absl::StrCat("field of tag ", tag, " is out of range"));
  }
  to = static_cast<int>(value);
  return absl::OkStatus();
}

// What people are shown must not be able to move their terminal's cursor.
absl::Status CheckTexts(const CompiledKernel& kernel) {
  if (!IsName(kernel.name)) {
    return absl::DataLossError(
        absl::StrCat("entry's name is \"", absl::CHexEscape(kernel.name),
                     "\"; allowed: letters, digits and _.:+-"));
  }
  std::vector<absl::string_view> texts = {kernel.source, kernel.compiler,
                                          kernel.log, kernel.provenance};
  texts.insert(texts.end(), kernel.options.begin(), kernel.options.end());
  for (const absl::string_view text : texts) {
    if (!IsPlainText(text)) {
      return absl::DataLossError("entry has control characters in a text");
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string EncodeEntry(const CompiledKernel& kernel) {
  RecordWriter writer;
  writer.Add(kKey, kernel.key);
  writer.Add(kName, kernel.name);
  writer.Add(kSource, kernel.source);
  for (const std::string& option : kernel.options) writer.Add(kOption, option);
  writer.Add(kCompiler, kernel.compiler);
  writer.Add(kLog, kernel.log);
  writer.Add(kCubin, kernel.cubin);
  writer.AddInt(kRegisters, kernel.registers);
  writer.AddInt(kStaticSharedMemoryBytes, kernel.static_shared_memory_bytes);
  writer.AddInt(kSpillBytes, kernel.spill_bytes);
  writer.AddInt(kCompileMs, kernel.compile_ms);
  writer.Add(kProvenance, kernel.provenance);
  return Frame(kKind, std::move(writer).Release());
}

absl::StatusOr<CompiledKernel> DecodeEntry(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const absl::string_view body, Unframe(kKind, bytes));
  ASSIGN_OR_RETURN(const Record record, Record::Parse(body));
  CompiledKernel kernel;
  RETURN_IF_ERROR(GetString(record, kKey, kernel.key));
  RETURN_IF_ERROR(GetString(record, kName, kernel.name));
  RETURN_IF_ERROR(GetString(record, kSource, kernel.source));
  for (absl::string_view option : record.GetAll(kOption)) {
    kernel.options.emplace_back(option);
  }
  RETURN_IF_ERROR(GetString(record, kCompiler, kernel.compiler));
  RETURN_IF_ERROR(GetString(record, kLog, kernel.log));
  RETURN_IF_ERROR(GetString(record, kCubin, kernel.cubin));
  RETURN_IF_ERROR(GetCount(record, kRegisters, kernel.registers));
  RETURN_IF_ERROR(GetCount(record, kStaticSharedMemoryBytes,
                           kernel.static_shared_memory_bytes));
  RETURN_IF_ERROR(GetCount(record, kSpillBytes, kernel.spill_bytes));
  ASSIGN_OR_RETURN(kernel.compile_ms, record.GetInt(kCompileMs));
  RETURN_IF_ERROR(GetString(record, kProvenance, kernel.provenance));
  RETURN_IF_ERROR(CheckTexts(kernel));
  if (CacheKey(kernel.source, kernel.options, kernel.compiler) != kernel.key) {
    return absl::DataLossError("entry's key is not that of its source");
  }
  return kernel;
}

}  // namespace gemmd::jit
