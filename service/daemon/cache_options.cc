#include "service/daemon/cache_options.h"

#include <cstdint>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "service/log/log.h"

ABSL_FLAG(int64_t, cache_limit_bytes, int64_t{4} << 30,
          "Most that the cache directory may hold, least recently used "
          "kernels go first; 0: no limit.");
ABSL_FLAG(std::vector<std::string>, cache_layers, {},
          "Cache directories that are only read, as in a container image, "
          "separated by commas; asked before --cache_dir.");
ABSL_FLAG(bool, require_complete, false,
          "Compile nothing: a kernel that is not in the cache is an error. "
          "For production, with a cache that gemm-warmup prepared.");

namespace gemmd::daemon {

absl::StatusOr<jit::KernelCache::Options> CacheOptions(
    const std::string& directory) {
  jit::KernelCache::Options options;
  options.directory = directory;
  options.directory_limit_bytes = absl::GetFlag(FLAGS_cache_limit_bytes);
  if (options.directory_limit_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--cache_limit_bytes is ", options.directory_limit_bytes,
                     "; allowed: from 0"));
  }
  options.layers = absl::GetFlag(FLAGS_cache_layers);
  options.require_complete = absl::GetFlag(FLAGS_require_complete);
  options.warn = [](const std::string& text) {
    log::Write(log::Level::kWarning, "cache_trouble", {{"message", text}});
  };
  return options;
}

}  // namespace gemmd::daemon
