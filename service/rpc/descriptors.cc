#include "service/rpc/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

#include "service/rpc/traffic.h"

namespace gemmd::rpc {
namespace {

// Of the daemon itself some 30; of compiles, files and who reads metrics.
constexpr int kOthers = 40;

int Eighth() { return std::max(1, DescriptorLimit() / 8); }

}  // namespace

int DescriptorLimit() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int>(
      std::min<rlim_t>(limit.rlim_cur, kCountedDescriptors));
}

int MostHandshakes() { return Eighth(); }

int MostGuests() { return std::max(1, Eighth() / 2); }

int MostConnections(bool secured) {
  const int others = kOthers + (secured ? 2 : 1) * Eighth();
  const int limit = DescriptorLimit();
  return std::max(1, std::min(limit * 3 / 8, (limit - others) / 2));
}

}  // namespace gemmd::rpc
