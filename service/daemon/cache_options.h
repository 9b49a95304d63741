// The parts of the kernel cache that hold secrets and connections.
#ifndef GEMMD_SERVICE_DAEMON_CACHE_OPTIONS_H_
#define GEMMD_SERVICE_DAEMON_CACHE_OPTIONS_H_

#include "absl/status/statusor.h"
#include "jit/cache/kernel_cache.h"
#include "service/daemon/options.h"

namespace gemmd::daemon {

// `options.cache` with its shared tier and where it reports trouble.
// INVALID_ARGUMENT names the option.
absl::StatusOr<jit::KernelCache::Options> CacheOptions(const Options& options);

}  // namespace gemmd::daemon

#endif  // GEMMD_SERVICE_DAEMON_CACHE_OPTIONS_H_
