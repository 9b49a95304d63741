// A cache entry: one compiled kernel as one self-describing file.
// The frame is that of jit/base/frame.h with the magic "GEMMDKRN". The body
// holds what the key is made of, so that an entry proves that it is the one
// that was asked for. Its first field is a summary, a record of its own in the
// first kilobytes of the file: lists read no more.
#ifndef GEMMD_JIT_CACHE_ENTRY_H_
#define GEMMD_JIT_CACHE_ENTRY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "jit/compile/compiled_kernel.h"

namespace gemmd::jit {

// What is known of a kernel without its source, log and cubin. As in
// CompiledKernel where nothing is said.
struct EntrySummary {
  std::string key;
  std::string name;
  std::string source_digest;  // SHA-256, 32 bytes.
  std::vector<std::string> options;
  std::string compiler;
  std::string provenance;
  int64_t source_bytes = 0;
  int64_t cubin_bytes = 0;
  int registers = 0;
  int static_shared_memory_bytes = 0;
  int spill_bytes = 0;
  int64_t compile_ms = 0;
};

// The summary of an entry lies within so many bytes of its start.
inline constexpr size_t kSummaryBytes = 8192;

EntrySummary Summarize(const CompiledKernel& kernel);

std::string EncodeEntry(const CompiledKernel& kernel);

// The kernel in `bytes`, its checksum and key verified, its texts fit to be
// printed. DATA_LOSS says what is wrong; any bytes may be given. Does not look
// inside the cubin.
absl::StatusOr<CompiledKernel> DecodeEntry(absl::string_view bytes);

// The summary of the entry that starts with `start`, its first kSummaryBytes
// or all of it. Its key is verified, its texts are fit to be printed; sizes
// and counts are as good as the entry, which is not checked. DATA_LOSS as
// above.
absl::StatusOr<EntrySummary> DecodeSummary(absl::string_view start);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_ENTRY_H_
