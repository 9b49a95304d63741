// gemm-warmup stats: a cache directory in numbers.
#include <cstdint>
#include <cstdio>
#include <map>

#include "absl/strings/str_format.h"
#include "clients/warmup/command.h"
#include "clients/warmup/json.h"
#include "clients/warmup/kernels.h"
#include "jit/base/folder.h"
#include "jit/base/status.h"

namespace gemmd::warmup {
namespace {

size_t CountFiles(const std::string& directory, const char* folder) {
  const absl::StatusOr<jit::UniqueFd> open =
      jit::OpenFolder(directory, folder, jit::FolderAccess::kRead);
  return open.ok() ? jit::NamesIn(*open).size() : 0;
}

absl::StatusOr<int> Run(const Flags& flags) {
  ASSIGN_OR_RETURN(const std::string directory, flags.Require("cache_dir"));
  ASSIGN_OR_RETURN(const KernelList list, ListKernels(directory));
  int64_t cubin_bytes = 0, compile_ms = 0;
  std::map<std::string, int> by_compiler;
  for (const jit::EntrySummary& kernel : list.kernels) {
    cubin_bytes += kernel.cubin_bytes;
    compile_ms += kernel.compile_ms;
    ++by_compiler[kernel.compiler];
  }
  const jit::DiskStore store = OpenToRead(directory);
  const size_t quarantined = CountFiles(directory, "quarantine");
  int damaged = list.damaged;
  const size_t records = ReadRecords(directory, damaged).size();
  const int code = damaged == 0 ? kExitComplete : kExitIncomplete;
  if (flags.Has("json")) {
    Json all;
    all.Set("kernels", static_cast<int64_t>(list.kernels.size()));
    all.Set("damaged", damaged);
    all.Set("quarantined", static_cast<int64_t>(quarantined));
    all.Set("tuning_records", static_cast<int64_t>(records));
    all.Set("bytes_on_disk", store.BytesUsed());
    all.Set("cubin_bytes", cubin_bytes);
    all.Set("compile_ms", compile_ms);
    for (const auto& [compiler, count] : by_compiler) {
      Json one;
      one.Set("compiler", compiler);
      one.Set("kernels", count);
      all.Append("compilers", one);
    }
    all.Print();
    return code;
  }
  absl::PrintF("kernels        %d\n", list.kernels.size());
  absl::PrintF("damaged        %d\n", damaged);
  absl::PrintF("quarantined    %d\n", quarantined);
  absl::PrintF("tuning records %d\n", records);
  absl::PrintF("bytes on disk  %d\n", store.BytesUsed());
  absl::PrintF("cubin bytes    %d\n", cubin_bytes);
  absl::PrintF("compile time   %.1f s\n",
               static_cast<double>(compile_ms) / 1000);
  for (const auto& [compiler, count] : by_compiler) {
    absl::PrintF("%-14d by %s\n", count, compiler);
  }
  return code;
}

}  // namespace

Command StatsCommand() {
  return {.name = "stats",
          .summary = "Count what a cache holds.",
          .flags = {CacheDirFlag(), JsonFlag()},
          .run = Run};
}

}  // namespace gemmd::warmup
