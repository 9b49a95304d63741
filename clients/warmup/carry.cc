// gemm-warmup export and import: a cache as one file.
#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "clients/warmup/command.h"
#include "clients/warmup/kernels.h"
#include "jit/bundle.h"
#include "jit/cubin.h"
#include "jit/disk_store.h"
#include "jit/entry.h"
#include "jit/status.h"

namespace gemmd::warmup {
namespace {

constexpr char kEntries[] = "entries/";

absl::StatusOr<int> Export(const Flags& flags) {
  ASSIGN_OR_RETURN(const std::string directory, flags.Require("cache_dir"));
  if (flags.positional().size() != 1) {
    return absl::InvalidArgumentError("give one BUNDLE to write");
  }
  ASSIGN_OR_RETURN(const KernelSet set, LoadKernels(directory));
  jit::BundleMembers members;
  for (const jit::CompiledKernel& kernel : set.kernels) {
    members[absl::StrCat(kEntries, kernel.key)] = jit::EncodeEntry(kernel);
  }
  const std::string bundle = jit::EncodeBundle(members);
  const std::string& name = flags.positional()[0];
  std::ofstream file(name, std::ios::binary | std::ios::trunc);
  file.write(bundle.data(), static_cast<std::streamsize>(bundle.size()));
  file.close();
  if (!file) return absl::UnavailableError(absl::StrCat("cannot write ", name));
  absl::PrintF("%d kernels, %d bytes\n", members.size(), bundle.size());
  return set.damaged == 0 ? kExitComplete : kExitIncomplete;
}

// The kernel of a member, verified as if it came from disk.
absl::StatusOr<jit::CompiledKernel> Decode(absl::string_view name,
                                           const std::string& bytes) {
  ASSIGN_OR_RETURN(jit::CompiledKernel kernel, jit::DecodeEntry(bytes));
  if (name != absl::StrCat(kEntries, kernel.key)) {
    return absl::DataLossError("a kernel lies under another key");
  }
  RETURN_IF_ERROR(jit::CheckCubin(kernel));
  return kernel;
}

absl::StatusOr<int> Import(const Flags& flags) {
  ASSIGN_OR_RETURN(const std::string directory, flags.Require("cache_dir"));
  if (flags.positional().size() != 1) {
    return absl::InvalidArgumentError("give one BUNDLE to read");
  }
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(flags.positional()[0]));
  ASSIGN_OR_RETURN(const jit::BundleMembers members, jit::DecodeBundle(bytes));
  // All of it is verified before any of it is stored.
  std::vector<jit::CompiledKernel> kernels;
  for (const auto& [name, member] : members) {
    ASSIGN_OR_RETURN(jit::CompiledKernel kernel, Decode(name, member));
    kernels.push_back(std::move(kernel));
  }
  jit::DiskStore store({.directory = directory});
  int there = 0;
  for (const jit::CompiledKernel& kernel : kernels) {
    if (store.Load(kernel.key).ok()) {
      ++there;
    } else {
      RETURN_IF_ERROR(store.Store(kernel));
    }
  }
  absl::PrintF("%d kernels: %d imported, %d there already\n", kernels.size(),
               kernels.size() - there, there);
  return kExitComplete;
}

}  // namespace

Command ExportCommand() {
  return {.name = "export",
          .operands = "BUNDLE",
          .summary = "Write a cache as one file.",
          .details =
              "The file is a tar archive: unpacked, it is a cache "
              "directory. The same\nkernels give the same bytes.\n",
          .flags = {CacheDirFlag()},
          .run = Export};
}

Command ImportCommand() {
  return {.name = "import",
          .operands = "BUNDLE",
          .summary = "Add the kernels of a bundle to a cache.",
          .details = "Nothing is added when any part of the file is wrong.\n",
          .flags = {CacheDirFlag()},
          .run = Import};
}

}  // namespace gemmd::warmup
