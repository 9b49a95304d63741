// The daemon that a command talks to, and the flags that say which and how.
#ifndef GEMMD_CLIENTS_WARMUP_CONNECT_H_
#define GEMMD_CLIENTS_WARMUP_CONNECT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/cpp/client.h"
#include "clients/warmup/flags.h"

namespace gemmd::warmup {

// `flags`, after those of the connection.
std::vector<FlagSpec> WithConnection(std::vector<FlagSpec> flags);

// What they say; INVALID_ARGUMENT where they are wrong.
struct Connection {
  std::string server;
  client::Options options;
};
absl::StatusOr<Connection> ConnectionOf(const Flags& flags);

}  // namespace gemmd::warmup

#endif  // GEMMD_CLIENTS_WARMUP_CONNECT_H_
