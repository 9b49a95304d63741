// gemm-warmup show: everything that is known of one kernel.
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/warmup/command.h"
#include "clients/warmup/kernels.h"
#include "jit/base/file.h"
#include "jit/base/status.h"

namespace gemmd::warmup {
namespace {

// The key of the kernel whose name, or the start of whose key, is `word`.
absl::StatusOr<std::string> Pick(const KernelList& list,
                                 const std::string& word) {
  std::vector<const jit::EntrySummary*> found;
  for (const jit::EntrySummary& kernel : list.kernels) {
    if (kernel.name == word || absl::StartsWith(kernel.key, word)) {
      found.push_back(&kernel);
    }
  }
  if (found.size() == 1) return found[0]->key;
  if (found.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no kernel has the name or key ", word));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      found.size(), " kernels have the name or key ", word,
      "; give more of a key: ",
      absl::StrJoin(found, ", ", [](std::string* out, const auto* kernel) {
        absl::StrAppend(out, kernel->key.substr(0, 16));
      })));
}

// Prints the instructions through a disassembler of the CUDA toolkit.
absl::Status PrintSass(const jit::CompiledKernel& kernel) {
  char name[] = "/tmp/gemm-warmup-XXXXXX";
  const jit::UniqueFd file(mkstemp(name));
  if (!file.ok()) return absl::UnavailableError("no temporary file");
  const absl::Status written = jit::WriteAll(file.get(), kernel.cubin);
  std::fflush(stdout);
  const std::string command =
      absl::StrCat("nvdisasm -c ", name, " 2>/dev/null || cuobjdump -sass ",
                   name, " 2>/dev/null");
  const int code = written.ok() ? std::system(command.c_str()) : -1;
  unlink(name);
  RETURN_IF_ERROR(written);
  if (code != 0) {
    return absl::FailedPreconditionError(
        "--sass needs nvdisasm or cuobjdump of the CUDA toolkit in the PATH");
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Run(const Flags& flags) {
  ASSIGN_OR_RETURN(const std::string directory, flags.Require("cache_dir"));
  if (flags.positional().size() != 1) {
    return absl::InvalidArgumentError("give one KERNEL: its name or key");
  }
  ASSIGN_OR_RETURN(const KernelList list, ListKernels(directory));
  ASSIGN_OR_RETURN(const std::string key, Pick(list, flags.positional()[0]));
  const absl::StatusOr<jit::CompiledKernel> read =
      OpenToRead(directory).Peek(key);
  if (!read.ok()) {
    return absl::Status(read.status().code(),
                        absl::StrCat(key, ": ", read.status().message()));
  }
  const jit::CompiledKernel& kernel = *read;
  if (flags.Has("source")) {
    std::fwrite(kernel.source.data(), 1, kernel.source.size(), stdout);
    return kExitComplete;
  }
  if (flags.Has("sass")) {
    RETURN_IF_ERROR(PrintSass(kernel));
    return kExitComplete;
  }
  absl::PrintF("name           %s\n", kernel.name);
  absl::PrintF("key            %s\n", kernel.key);
  absl::PrintF("compiler       %s\n", kernel.compiler);
  absl::PrintF("options        %s\n", absl::StrJoin(kernel.options, " "));
  absl::PrintF("made by        %s\n", kernel.provenance);
  absl::PrintF("compiled in    %d ms\n", kernel.compile_ms);
  absl::PrintF("source         %d bytes\n", kernel.source.size());
  absl::PrintF("cubin          %d bytes\n", kernel.cubin.size());
  absl::PrintF("registers      %d per thread\n", kernel.registers);
  absl::PrintF("shared memory  %d bytes, static\n",
               kernel.static_shared_memory_bytes);
  absl::PrintF("spills         %d bytes\n", kernel.spill_bytes);
  absl::PrintF("log\n%s\n", kernel.log);
  return kExitComplete;
}

}  // namespace

Command ShowCommand() {
  return {.name = "show",
          .operands = "KERNEL",
          .summary = "Show one kernel, given by its name or key.",
          .flags = {CacheDirFlag(),
                    {"source", "", "print the source that was compiled"},
                    {"sass", "", "print the machine instructions"}},
          .run = Run};
}

}  // namespace gemmd::warmup
