// gemm-warmup list: what a cache directory holds.
#include <cstdio>

#include "absl/strings/str_format.h"
#include "clients/warmup/command.h"
#include "clients/warmup/json.h"
#include "clients/warmup/kernels.h"
#include "jit/base/status.h"

namespace gemmd::warmup {
namespace {

absl::StatusOr<int> Run(const Flags& flags) {
  ASSIGN_OR_RETURN(const std::string directory, flags.Require("cache_dir"));
  ASSIGN_OR_RETURN(const KernelList list, ListKernels(directory));
  const int code = list.damaged == 0 ? kExitComplete : kExitIncomplete;
  if (flags.Has("json")) {
    Json all;
    all.Set("kernels", std::vector<std::string>());
    for (const jit::EntrySummary& kernel : list.kernels) {
      Json one;
      one.Set("key", kernel.key);
      one.Set("kernel", kernel.name);
      one.Set("cubin_bytes", kernel.cubin_bytes);
      one.Set("registers", kernel.registers);
      one.Set("compile_ms", kernel.compile_ms);
      one.Set("compiler", kernel.compiler);
      all.Append("kernels", one);
    }
    all.Set("damaged", list.damaged);
    all.Print();
    return code;
  }
  absl::PrintF("%-16s %9s %9s %8s  %s\n", "KEY", "BYTES", "REGISTERS", "MS",
               "NAME");
  for (const jit::EntrySummary& kernel : list.kernels) {
    absl::PrintF("%-16s %9d %9d %8d  %s\n", kernel.key.substr(0, 16),
                 kernel.cubin_bytes, kernel.registers, kernel.compile_ms,
                 kernel.name);
  }
  return code;
}

}  // namespace

Command ListCommand() {
  return {.name = "list",
          .summary = "List the kernels of a cache.",
          .flags = {CacheDirFlag(), JsonFlag()},
          .run = Run};
}

}  // namespace gemmd::warmup
