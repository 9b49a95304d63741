// The flags of the kernel cache, --cache_dir aside.
#ifndef GEMMD_SERVICE_DAEMON_CACHE_OPTIONS_H_
#define GEMMD_SERVICE_DAEMON_CACHE_OPTIONS_H_

#include <string>

#include "absl/status/statusor.h"
#include "jit/cache/kernel_cache.h"

namespace gemmd::daemon {

// INVALID_ARGUMENT names the flag. An empty `directory` keeps kernels in
// memory alone.
absl::StatusOr<jit::KernelCache::Options> CacheOptions(
    const std::string& directory);

}  // namespace gemmd::daemon

#endif  // GEMMD_SERVICE_DAEMON_CACHE_OPTIONS_H_
