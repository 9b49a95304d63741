// Which Redis server, and how it is reached.
#ifndef GEMMD_JIT_CACHE_REDIS_SERVER_URL_H_
#define GEMMD_JIT_CACHE_REDIS_SERVER_URL_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd::jit {

struct RedisServer {
  // "host:port", "[::1]:6379" or "unix:/path".
  std::string address;
  std::string user;      // Empty: the server's default user.
  std::string password;  // Empty: none.
  bool tls = false;      // The server's certificate must be of its host.
  // File of the authorities that are trusted; empty: those of the system.
  std::string ca_file;
};

// The server of "redis://[user[:password]@]host[:port]", the same with
// "rediss://", which is by TLS, "unix:/path" or "host:port". User and password
// may hold %XX. INVALID_ARGUMENT says what is wrong, and repeats no password.
absl::StatusOr<RedisServer> ParseRedisUrl(absl::string_view url);

// The host in an address that is no path, without brackets.
std::string HostOf(const std::string& address);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_REDIS_SERVER_URL_H_
