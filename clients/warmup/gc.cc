// gemm-warmup gc: makes a cache directory smaller.
#include <cstdint>
#include <optional>

#include "absl/strings/str_format.h"
#include "clients/warmup/command.h"
#include "clients/warmup/kernels.h"
#include "jit/base/status.h"
#include "jit/cache/disk_store.h"
#include "jit/cache/tuning_store.h"
#include "jit/compile/nvrtc_compiler.h"
#include "jit/source/template_library.h"

namespace gemmd::warmup {
namespace {

// Removes what the NVRTC of today did not make: its keys are not asked for.
absl::Status RemoveOthers(jit::DiskStore& store, const Flags& flags) {
  ASSIGN_OR_RETURN(
      const std::unique_ptr<jit::Compiler> compiler,
      jit::CreateNvrtcCompiler({.nvrtc_path = flags.Get("nvrtc", "")}));
  ASSIGN_OR_RETURN(const KernelList list, ListKernels(store.directory()));
  for (const jit::EntrySummary& kernel : list.kernels) {
    if (kernel.compiler == compiler->identity()) continue;
    const absl::Status removed = store.Remove(kernel.key);
    // Another process may have been quicker.
    if (!absl::IsNotFound(removed)) RETURN_IF_ERROR(removed);
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Run(const Flags& flags) {
  ASSIGN_OR_RETURN(const std::string directory, flags.Require("cache_dir"));
  ASSIGN_OR_RETURN(const int64_t limit, flags.GetBytes("limit_bytes", 0));
  RETURN_IF_ERROR(ListKernels(directory).status());
  jit::DiskStore store({.directory = directory});
  const int64_t bytes_before = store.BytesUsed();
  const size_t kernels_before = store.Keys().size();
  if (flags.Has("other_compilers")) RETURN_IF_ERROR(RemoveOthers(store, flags));
  if (flags.Has("other_templates")) {
    absl::PrintF("tuning records %d removed\n",
                 jit::TuningStore(directory).RemoveOthers(
                     jit::TemplateLibrary::Embedded().Digest()));
  }
  // Nothing given: as much as its daemon lets it hold.
  RETURN_IF_ERROR(
      store.Collect(limit == 0 ? std::nullopt : std::optional<int64_t>(limit))
          .status());
  absl::PrintF("kernels        %d -> %d\n", kernels_before,
               store.Keys().size());
  absl::PrintF("bytes on disk  %d -> %d\n", bytes_before, store.BytesUsed());
  return kExitComplete;
}

}  // namespace

Command GcCommand() {
  return {.name = "gc",
          .summary = "Remove what crashes left, and the least recently used.",
          .flags = {CacheDirFlag(),
                    {"limit_bytes", "BYTES",
                     "keep at most so many bytes; default: the limit of the "
                     "cache's daemon"},
                    {"other_compilers", "",
                     "remove what another build of NVRTC made"},
                    {"other_templates", "",
                     "remove tuning records of other templates than those "
                     "built in"},
                    NvrtcFlag()},
          .run = Run};
}

}  // namespace gemmd::warmup
