// A cache that machines share, on a Redis server.
//
// It is never trusted blindly: what it holds is verified as if it came from
// disk, and when a key is configured it must carry a signature made with that
// key. Trouble is short: an operation has a deadline, and after a few failures
// in a row the server is left alone for a while. Thread-safe.
#ifndef GEMMD_JIT_CACHE_REDIS_TIER_H_
#define GEMMD_JIT_CACHE_REDIS_TIER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "jit/cache/redis_connection.h"
#include "jit/cache/tier.h"

namespace gemmd::jit {

struct RedisTierOptions {
  RedisServer server;
  std::string prefix = "gemmd:1:";  // Of keys on the server.
  // Signs what is stored; what is loaded must be signed with it.
  std::string signing_key;
  // Without a signing key, whoever can write to the server decides what the
  // GPUs run: it takes this to want that.
  bool allow_unsigned = false;
  absl::Duration load_timeout = absl::Milliseconds(100);
  absl::Duration store_timeout = absl::Seconds(2);
  // The circuit breaker: so many failures in a row, then so long a pause, in
  // which everything is a miss.
  int failures_until_pause = 3;
  absl::Duration pause = absl::Seconds(10);
};

// FAILED_PRECONDITION without a signing key, unless that is allowed.
absl::StatusOr<std::shared_ptr<Tier>> CreateRedisTier(RedisTierOptions options);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_REDIS_TIER_H_
