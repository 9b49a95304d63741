#include "service/rpc/address.h"

#include <arpa/inet.h>

#include <cstdint>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace gemmd::rpc {
std::string HostOf(const std::string& address) {
  absl::string_view host = address;
  // Who asks for the port of HTTP names none: "[::1]".
  if (!absl::EndsWith(host, "]")) host = host.substr(0, host.rfind(':'));
  absl::ConsumePrefix(&host, "[");
  absl::ConsumeSuffix(&host, "]");
  return std::string(host);
}

bool IsUnix(const std::string& address) {
  return absl::StartsWith(address, "unix:");
}

std::string PathOf(const std::string& address) {
  absl::string_view path = address;
  absl::ConsumePrefix(&path, "unix:");
  absl::ConsumePrefix(&path, "//");
  return std::string(path);
}

bool IsInOpenFolder(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path folder = fs::absolute(path, error);
  while (folder.has_relative_path()) {
    folder = folder.parent_path();
    const fs::perms may = fs::status(folder, error).permissions();
    if (error || (may & fs::perms::others_exec) == fs::perms::none) {
      return false;
    }
  }
  return true;
}

bool IsLocal(const std::string& address) {
  if (IsUnix(address)) return true;
  const std::string host = HostOf(address);
  in_addr v4;
  in6_addr v6;
  return absl::EqualsIgnoreCase(host, "localhost") ||
         (inet_pton(AF_INET, host.c_str(), &v4) == 1 &&
          ntohl(v4.s_addr) >> 24 == 127) ||
         (inet_pton(AF_INET6, host.c_str(), &v6) == 1 &&
          IN6_IS_ADDR_LOOPBACK(&v6));
}

std::string WithPort(const std::string& address, int port) {
  if (IsUnix(address)) return address;
  return absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
}

}  // namespace gemmd::rpc
