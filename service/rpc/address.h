// Listening addresses: "127.0.0.1:0", "[::1]:50051", "unix:/path".
#ifndef GEMMD_SERVICE_RPC_ADDRESS_H_
#define GEMMD_SERVICE_RPC_ADDRESS_H_

#include <string>

namespace gemmd::rpc {

bool IsUnix(const std::string& address);

// The path of a Unix socket's address, "unix:/path" or "unix:///path".
std::string PathOf(const std::string& address);

// Whether every user of the machine may enter the folder of `path`.
bool IsInOpenFolder(const std::string& path);

// The host part of a TCP address, without the brackets of IPv6.
std::string HostOf(const std::string& address);

// Whether no other machine can reach `address`.
bool IsLocal(const std::string& address);

// `address` with the port that was bound.
std::string WithPort(const std::string& address, int port);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_ADDRESS_H_
