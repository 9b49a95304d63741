// Addresses on command lines. No name is looked up. Thread-safe.
#ifndef GEMMD_CLIENTS_CLI_ADDRESS_H_
#define GEMMD_CLIENTS_CLI_ADDRESS_H_

#include <string>

#include "absl/status/status.h"

namespace gemmd::cli {

// Where a daemon listens: "127.0.0.1:50051" (port 0: any that is free),
// "[::1]:50051", "unix:/path". INVALID_ARGUMENT says what is wrong; the message
// follows the address.
absl::Status CheckListenAddress(const std::string& address);

// Where a client dials, the value of --server: the same with a port from 1,
// "unix:path", and gRPC's own schemes such as "dns:///host:50051".
absl::Status CheckServer(const std::string& address);

// $GEMMD_SERVER, or where a daemon listens by default.
std::string DefaultServer();

// What --help says of --server.
std::string ServerHelp();

}  // namespace gemmd::cli

#endif  // GEMMD_CLIENTS_CLI_ADDRESS_H_
