// Addresses on command lines. Pure functions; no name is looked up.
#ifndef GEMMD_CLIENTS_CLI_ADDRESS_H_
#define GEMMD_CLIENTS_CLI_ADDRESS_H_

#include <string>

#include "absl/status/status.h"

namespace gemmd::cli {

// Where a daemon listens: "127.0.0.1:50051" (port 0: any that is free),
// "[::1]:50051", "unix:/path". INVALID_ARGUMENT says what is wrong; the message
// follows the address.
absl::Status CheckListenAddress(const std::string& address);

// Where a client dials: the same with a port from 1, "unix:path", and gRPC's
// own schemes such as "dns:///host:50051".
absl::Status CheckServerAddress(const std::string& address);

}  // namespace gemmd::cli

#endif  // GEMMD_CLIENTS_CLI_ADDRESS_H_
