// gemm-warmup diff: what one cache has and another has not.
#include <cstdio>
#include <map>

#include "absl/strings/str_format.h"
#include "clients/warmup/command.h"
#include "clients/warmup/kernels.h"
#include "jit/base/status.h"

namespace gemmd::warmup {
namespace {

using ByKey = std::map<std::string, const jit::EntrySummary*>;

ByKey Index(const KernelList& list) {
  ByKey by_key;
  for (const jit::EntrySummary& kernel : list.kernels) {
    by_key[kernel.key] = &kernel;
  }
  return by_key;
}

// Prints with `mark` what `left` has alone; true when there was something.
bool PrintAlone(char mark, const ByKey& left, const ByKey& right) {
  bool any = false;
  for (const auto& [key, kernel] : left) {
    if (right.contains(key)) continue;
    absl::PrintF("%c %s %s\n", mark, key.substr(0, 16), kernel->name);
    any = true;
  }
  return any;
}

absl::StatusOr<int> Run(const Flags& flags) {
  if (flags.positional().size() != 2) {
    return absl::InvalidArgumentError("give two cache directories");
  }
  ASSIGN_OR_RETURN(const KernelList one, ListKernels(flags.positional()[0]));
  ASSIGN_OR_RETURN(const KernelList other, ListKernels(flags.positional()[1]));
  const ByKey left = Index(one), right = Index(other);
  bool differ = PrintAlone('-', left, right);
  differ |= PrintAlone('+', right, left);
  for (const auto& [key, kernel] : left) {
    if (!right.contains(key)) continue;
    ASSIGN_OR_RETURN(const jit::CompiledKernel a,
                     OpenToRead(flags.positional()[0]).Peek(key));
    ASSIGN_OR_RETURN(const jit::CompiledKernel b,
                     OpenToRead(flags.positional()[1]).Peek(key));
    if (a.cubin == b.cubin) continue;
    absl::PrintF("! %s %s: cubins differ\n", key.substr(0, 16), kernel->name);
    differ = true;
  }
  return differ ? kExitIncomplete : kExitComplete;
}

}  // namespace

Command DiffCommand() {
  return {.name = "diff",
          .operands = "DIR DIR",
          .summary = "Compare two caches.",
          .details =
              "- only in the first, + only in the second, ! other "
              "bytes under one key.\nExit code 1 when they differ.\n",
          .flags = {},
          .run = Run};
}

}  // namespace gemmd::warmup
