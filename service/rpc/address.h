// Listening addresses: "127.0.0.1:0", "[::1]:50051", "unix:/path". Pure
// functions.
#ifndef GEMMD_SERVICE_RPC_ADDRESS_H_
#define GEMMD_SERVICE_RPC_ADDRESS_H_

#include <string>

#include "absl/status/status.h"

namespace gemmd::rpc {

bool IsUnix(const std::string& address);

// The host part of a TCP address, without the brackets of IPv6.
std::string HostOf(const std::string& address);

// INVALID_ARGUMENT when other machines can reach `address`, which would carry
// plaintext there.
absl::Status CheckLocal(const std::string& address);

// `address` with the port that was bound.
std::string WithPort(const std::string& address, int port);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_ADDRESS_H_
