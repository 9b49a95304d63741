#include "clients/warmup/kernels.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "jit/base/file.h"
#include "jit/cache/disk_store.h"

namespace gemmd::warmup {

absl::StatusOr<KernelSet> LoadKernels(const std::string& directory) {
  std::error_code error;
  if (!std::filesystem::is_directory(directory + "/entries", error)) {
    return absl::NotFoundError(
        absl::StrCat(directory, " is not a cache directory"));
  }
  jit::DiskStore store({.directory = directory, .read_only = true});
  if (const absl::Status status = store.CheckReadable(); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat("cannot read ", directory,
                                                    ": ", status.message()));
  }
  KernelSet set;
  for (const std::string& key : store.Keys()) {
    absl::StatusOr<jit::CompiledKernel> kernel = store.Load(key);
    if (kernel.ok()) {
      set.kernels.push_back(*std::move(kernel));
    } else {
      ++set.damaged;
      absl::FPrintF(stderr, "%s: %s\n", key, kernel.status().message());
    }
  }
  std::sort(set.kernels.begin(), set.kernels.end(),
            [](const jit::CompiledKernel& a, const jit::CompiledKernel& b) {
              return std::tie(a.name, a.key) < std::tie(b.name, b.key);
            });
  return set;
}

absl::StatusOr<std::string> ReadFile(const std::string& file) {
  constexpr int64_t kMaxBytes = int64_t{1} << 30;
  absl::StatusOr<std::string> text = file == "-"
                                         ? jit::ReadAll(STDIN_FILENO, kMaxBytes)
                                         : jit::ReadFile(file, kMaxBytes);
  if (text.ok()) return text;
  return absl::Status(
      text.status().code(),
      absl::StrCat("cannot read ", file, ": ", text.status().message()));
}

}  // namespace gemmd::warmup
