// The little of the Redis protocol (RESP2) that a cache needs: a command, a
// reply, a deadline for both together, a limit on what is taken. Connects when
// it is first used and again after any failure.
#ifndef GEMMD_JIT_CACHE_REDIS_CONNECTION_H_
#define GEMMD_JIT_CACHE_REDIS_CONNECTION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "jit/base/stream.h"
#include "jit/cache/redis_server_url.h"

namespace gemmd::jit {

// Thread-compatible.
class RedisConnection {
 public:
  explicit RedisConnection(RedisServer server) : server_(std::move(server)) {}

  // The reply to `arguments` as a string: a bulk string, a status or an
  // integer. NOT_FOUND for a nil; UNAVAILABLE or DEADLINE_EXCEEDED when the
  // server is in trouble; PERMISSION_DENIED when it wants another user or
  // password; UNAUTHENTICATED when it is not the one that was meant; DATA_LOSS
  // when it does not speak RESP or sends more than `limit_bytes`;
  // FAILED_PRECONDITION when it reports another error. Names of hosts are
  // resolved without regard to the deadline.
  absl::StatusOr<std::string> Command(const std::vector<std::string>& arguments,
                                      int64_t limit_bytes, absl::Time deadline);

 private:
  absl::Status Connect(absl::Time deadline);
  absl::StatusOr<std::string> Exchange(
      const std::vector<std::string>& arguments, int64_t limit_bytes,
      absl::Time deadline);
  absl::StatusOr<std::string> ReceiveLine(absl::Time deadline);

  const RedisServer server_;
  std::unique_ptr<Stream> stream_;  // Null when there is no connection.
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_REDIS_CONNECTION_H_
