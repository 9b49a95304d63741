#include "jit/cache/entry.h"

#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "jit/base/frame.h"
#include "jit/base/record.h"
#include "jit/base/sha256.h"
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
  kSummary = 13,  // The record of all fields but source, log and cubin.
  kSourceDigest = 14,
  kSourceBytes = 15,
  kCubinBytes = 16,
};

absl::Status GetString(const Record& record, Tag tag, std::string& to) {
  ASSIGN_OR_RETURN(const absl::string_view value, record.Get(tag));
  to.assign(value.data(), value.size());
  return absl::OkStatus();
}

// Counts are not negative.
template <typename Integer>
absl::Status GetCount(const Record& record, Tag tag, Integer& to) {
  ASSIGN_OR_RETURN(const int64_t value, record.GetInt(tag));
  if (value < 0 || value > std::numeric_limits<Integer>::max()) {
    return absl::DataLossError(
        absl::StrCat("field of tag ", tag, " is out of range"));
  }
  to = static_cast<Integer>(value);
  return absl::OkStatus();
}

std::string EncodeSummary(const EntrySummary& summary) {
  RecordWriter writer;
  writer.Add(kKey, summary.key);
  writer.Add(kName, summary.name);
  writer.Add(kSourceDigest, summary.source_digest);
  for (const std::string& option : summary.options) writer.Add(kOption, option);
  writer.Add(kCompiler, summary.compiler);
  writer.Add(kProvenance, summary.provenance);
  writer.AddInt(kSourceBytes, summary.source_bytes);
  writer.AddInt(kCubinBytes, summary.cubin_bytes);
  writer.AddInt(kRegisters, summary.registers);
  writer.AddInt(kStaticSharedMemoryBytes, summary.static_shared_memory_bytes);
  writer.AddInt(kSpillBytes, summary.spill_bytes);
  writer.AddInt(kCompileMs, summary.compile_ms);
  return std::move(writer).Release();
}

// What people are shown must not be able to move their terminal's cursor.
absl::Status CheckTexts(const EntrySummary& summary) {
  if (!IsName(summary.name)) {
    return absl::DataLossError(
        absl::StrCat("entry's name is \"", absl::CHexEscape(summary.name),
                     "\"; allowed: letters, digits and _.:+-"));
  }
  bool plain = IsPlainText(summary.compiler) && IsPlainText(summary.provenance);
  for (const std::string& option : summary.options) {
    plain = plain && IsPlainText(option);
  }
  if (plain) return absl::OkStatus();
  return absl::DataLossError("entry has control characters in a text");
}

absl::StatusOr<EntrySummary> ParseSummary(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const Record record, Record::Parse(bytes));
  EntrySummary summary;
  RETURN_IF_ERROR(GetString(record, kKey, summary.key));
  RETURN_IF_ERROR(GetString(record, kName, summary.name));
  RETURN_IF_ERROR(GetString(record, kSourceDigest, summary.source_digest));
  for (const absl::string_view option : record.GetAll(kOption)) {
    summary.options.emplace_back(option);
  }
  RETURN_IF_ERROR(GetString(record, kCompiler, summary.compiler));
  RETURN_IF_ERROR(GetString(record, kProvenance, summary.provenance));
  RETURN_IF_ERROR(GetCount(record, kSourceBytes, summary.source_bytes));
  RETURN_IF_ERROR(GetCount(record, kCubinBytes, summary.cubin_bytes));
  RETURN_IF_ERROR(GetCount(record, kRegisters, summary.registers));
  RETURN_IF_ERROR(GetCount(record, kStaticSharedMemoryBytes,
                           summary.static_shared_memory_bytes));
  RETURN_IF_ERROR(GetCount(record, kSpillBytes, summary.spill_bytes));
  RETURN_IF_ERROR(GetCount(record, kCompileMs, summary.compile_ms));
  RETURN_IF_ERROR(CheckTexts(summary));
  if (CacheKeyOfDigest(summary.source_digest, summary.options,
                       summary.compiler) != summary.key) {
    return absl::DataLossError("entry's key is not that of its source");
  }
  return summary;
}

}  // namespace

EntrySummary Summarize(const CompiledKernel& kernel) {
  return {
      .key = kernel.key,
      .name = kernel.name,
      .source_digest = Sha256Of(kernel.source),
      .options = kernel.options,
      .compiler = kernel.compiler,
      .provenance = kernel.provenance,
      .source_bytes = static_cast<int64_t>(kernel.source.size()),
      .cubin_bytes = static_cast<int64_t>(kernel.cubin.size()),
      .registers = kernel.registers,
      .static_shared_memory_bytes = kernel.static_shared_memory_bytes,
      .spill_bytes = kernel.spill_bytes,
      .compile_ms = kernel.compile_ms,
  };
}

std::string EncodeEntry(const CompiledKernel& kernel) {
  RecordWriter writer;
  writer.Add(kSummary, EncodeSummary(Summarize(kernel)));
  writer.Add(kSource, kernel.source);
  writer.Add(kLog, kernel.log);
  writer.Add(kCubin, kernel.cubin);
  return Frame(kKind, std::move(writer).Release());
}

absl::StatusOr<CompiledKernel> DecodeEntry(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const absl::string_view body, Unframe(kKind, bytes));
  ASSIGN_OR_RETURN(const Record record, Record::Parse(body));
  ASSIGN_OR_RETURN(const absl::string_view head, record.Get(kSummary));
  ASSIGN_OR_RETURN(EntrySummary summary, ParseSummary(head));
  CompiledKernel kernel;
  RETURN_IF_ERROR(GetString(record, kSource, kernel.source));
  RETURN_IF_ERROR(GetString(record, kLog, kernel.log));
  RETURN_IF_ERROR(GetString(record, kCubin, kernel.cubin));
  if (Sha256Of(kernel.source) != summary.source_digest) {
    return absl::DataLossError("entry's source is not that of its summary");
  }
  if (!IsPlainText(kernel.source) || !IsPlainText(kernel.log)) {
    return absl::DataLossError("entry has control characters in a text");
  }
  kernel.key = std::move(summary.key);
  kernel.name = std::move(summary.name);
  kernel.options = std::move(summary.options);
  kernel.compiler = std::move(summary.compiler);
  kernel.provenance = std::move(summary.provenance);
  kernel.registers = summary.registers;
  kernel.static_shared_memory_bytes = summary.static_shared_memory_bytes;
  kernel.spill_bytes = summary.spill_bytes;
  kernel.compile_ms = summary.compile_ms;
  return kernel;
}

absl::StatusOr<EntrySummary> DecodeSummary(absl::string_view start) {
  ASSIGN_OR_RETURN(absl::string_view body, UnframeStart(kKind, start));
  uint32_t tag = 0;
  uint64_t length = 0;
  if (!TakeU32(body, tag) || !TakeU64(body, length) || tag != kSummary ||
      length > body.size()) {
    return absl::DataLossError("entry does not start with its summary");
  }
  return ParseSummary(body.substr(0, length));
}

}  // namespace gemmd::jit
