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

jit::DiskStore OpenToRead(const std::string& directory) {
  return jit::DiskStore({.directory = directory, .read_only = true});
}

absl::StatusOr<KernelList> ListKernels(const std::string& directory) {
  std::error_code error;
  if (!std::filesystem::is_directory(directory + "/entries", error)) {
    return absl::NotFoundError(
        absl::StrCat(directory, " is not a cache directory"));
  }
  const jit::DiskStore store = OpenToRead(directory);
  if (const absl::Status status = store.CheckReadable(); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat("cannot read ", directory,
                                                    ": ", status.message()));
  }
  KernelList list;
  for (const std::string& key : store.Keys()) {
    absl::StatusOr<jit::EntrySummary> kernel = store.Summary(key);
    if (kernel.ok()) {
      list.kernels.push_back(*std::move(kernel));
    } else if (!absl::IsNotFound(kernel.status())) {
      ++list.damaged;
      absl::FPrintF(stderr, "%s: %s\n", key, kernel.status().message());
    }
  }
  std::sort(list.kernels.begin(), list.kernels.end(),
            [](const jit::EntrySummary& a, const jit::EntrySummary& b) {
              return std::tie(a.name, a.key) < std::tie(b.name, b.key);
            });
  return list;
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
