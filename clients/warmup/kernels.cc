#include "clients/warmup/kernels.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "jit/cache/disk_store.h"

namespace gemmd::warmup {

absl::StatusOr<KernelSet> LoadKernels(const std::string& directory) {
  std::error_code error;
  if (!std::filesystem::is_directory(directory + "/entries", error)) {
    return absl::NotFoundError(
        absl::StrCat(directory, " is not a cache directory"));
  }
  jit::DiskStore store({.directory = directory, .read_only = true});
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
  if (file == "-") {
    return std::string(std::istreambuf_iterator<char>(std::cin), {});
  }
  std::ifstream stream(file, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(stream), {});
  if (!stream.good() && !stream.eof()) {
    return absl::NotFoundError(absl::StrCat("cannot read ", file));
  }
  return text;
}

}  // namespace gemmd::warmup
