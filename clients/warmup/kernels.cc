#include "clients/warmup/kernels.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "jit/base/file.h"
#include "jit/base/status.h"
#include "jit/cache/disk_store.h"
#include "jit/cache/tuning_store.h"

namespace gemmd::warmup {

jit::DiskStore OpenToRead(const std::string& directory) {
  return jit::DiskStore({.directory = directory, .read_only = true});
}

absl::StatusOr<std::vector<std::string>> ReadKeys(
    const std::string& directory) {
  absl::StatusOr<std::vector<std::string>> keys =
      OpenToRead(directory).ReadKeys();
  if (keys.ok()) return keys;
  if (absl::IsNotFound(keys.status())) {
    return absl::NotFoundError(
        absl::StrCat(directory, " is not a cache directory"));
  }
  return absl::Status(
      keys.status().code(),
      absl::StrCat("cannot read ", directory, ": ", keys.status().message()));
}

absl::StatusOr<KernelList> ListKernels(const std::string& directory) {
  ASSIGN_OR_RETURN(const std::vector<std::string> keys, ReadKeys(directory));
  const jit::DiskStore store = OpenToRead(directory);
  KernelList list;
  for (const std::string& key : keys) {
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

std::optional<jit::CompiledKernel> ReadKernel(const jit::DiskStore& store,
                                              const std::string& key,
                                              int& damaged) {
  absl::StatusOr<jit::CompiledKernel> kernel = store.Peek(key);
  if (kernel.ok()) return *std::move(kernel);
  if (!absl::IsNotFound(kernel.status())) {
    ++damaged;
    absl::FPrintF(stderr, "%s: %s\n", key, kernel.status().message());
  }
  return std::nullopt;
}

std::vector<jit::TuningRecord> ReadRecords(const std::string& directory,
                                           int& damaged) {
  jit::TuningRecords records =
      jit::TuningStore(directory, /*read_only=*/true).All();
  for (const std::string& fault : records.faults) {
    ++damaged;
    absl::FPrintF(stderr, "tuning record %s\n", fault);
  }
  return std::move(records.readable);
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
