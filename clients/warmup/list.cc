// gemm-warmup list: what a cache directory holds.
#include <algorithm>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "clients/warmup/command.h"
#include "jit/kernel_cache.h"
#include "jit/status.h"

namespace gemmd::warmup {
namespace {

using KernelPointer = std::shared_ptr<const jit::CompiledKernel>;

absl::StatusOr<int> Run(const Flags& flags) {
  ASSIGN_OR_RETURN(const std::string directory, flags.Require("cache_dir"));
  bool complete = true;
  const std::unique_ptr<jit::KernelCache> cache =
      jit::KernelCache::Create({.directory = directory,
                                .warn =
                                    [&complete](const std::string& text) {
                                      complete = false;
                                      absl::FPrintF(stderr, "%s\n", text);
                                    }},
                               nullptr);
  std::vector<KernelPointer> kernels = cache->List();
  std::sort(kernels.begin(), kernels.end(),
            [](const KernelPointer& a, const KernelPointer& b) {
              return std::tie(a->name, a->key) < std::tie(b->name, b->key);
            });
  absl::PrintF("%-16s %9s %9s %8s  %s\n", "KEY", "BYTES", "REGISTERS", "MS",
               "NAME");
  for (const KernelPointer& kernel : kernels) {
    absl::PrintF("%-16s %9d %9d %8d  %s\n", kernel->key.substr(0, 16),
                 kernel->cubin.size(), kernel->registers, kernel->compile_ms,
                 kernel->name);
  }
  return complete ? kExitComplete : kExitIncomplete;
}

}  // namespace

Command ListCommand() {
  return {.name = "list",
          .summary = "List the kernels of a cache.",
          .flags = {CacheDirFlag()},
          .run = Run};
}

}  // namespace gemmd::warmup
