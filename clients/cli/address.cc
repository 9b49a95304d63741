#include "clients/cli/address.h"

#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace gemmd::cli {
namespace {

// sun_path holds 108 bytes, the last one zero.
constexpr size_t kMaxUnixPath = 107;

absl::Status Wrong(absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(why, "; allowed: HOST:PORT, [IPV6]:PORT, unix:/PATH"));
}

absl::Status CheckUnix(absl::string_view path) {
  if (path.empty()) return Wrong("it has no path");
  if (absl::StartsWith(path, "//") && !absl::StartsWith(path, "///")) {
    return Wrong("it has two slashes before its path");
  }
  if (path.size() <= kMaxUnixPath) return absl::OkStatus();
  return Wrong(absl::StrCat("its path has ", path.size(),
                            " bytes, and a Unix socket's at most ",
                            kMaxUnixPath));
}

absl::Status CheckHostAndPort(absl::string_view address, int least_port) {
  if (address.empty()) return Wrong("it is empty");
  if (absl::StrContains(address, "://")) {
    return Wrong("it has a scheme that is none of gRPC's");
  }
  const size_t colon = address.rfind(':');
  const bool bracketed = absl::StartsWith(address, "[");
  if (colon == address.npos || (bracketed && address[colon - 1] != ']')) {
    return Wrong("it has no port");
  }
  const absl::string_view host = address.substr(0, colon);
  const absl::string_view port = address.substr(colon + 1);
  if (host.empty() || host == "[]") return Wrong("it has no host");
  if (!bracketed && absl::StrContains(host, ":")) {
    return Wrong("an IPv6 address stands in brackets");
  }
  for (const char c : host) {
    if (absl::ascii_isspace(static_cast<unsigned char>(c))) {
      return Wrong("it holds a blank");
    }
  }
  int number = 0;
  const bool digits = port.find_first_not_of("0123456789") == port.npos;
  if (!digits || !absl::SimpleAtoi(port, &number) || number < least_port ||
      number > 65535) {
    return Wrong(absl::StrCat("its port is '", port, "', not a number from ",
                              least_port, " to 65535"));
  }
  return absl::OkStatus();
}

absl::Status CheckDialled(const std::string& address) {
  absl::string_view path = address;
  if (absl::ConsumePrefix(&path, "unix:")) return CheckUnix(path);
  for (const char* scheme : {"dns:", "ipv4:", "ipv6:", "unix-abstract:"}) {
    if (absl::StartsWith(address, scheme)) return absl::OkStatus();
  }
  return CheckHostAndPort(address, 1);
}

}  // namespace

absl::Status CheckListenAddress(const std::string& address) {
  absl::string_view path = address;
  if (absl::ConsumePrefix(&path, "unix:")) return CheckUnix(path);
  return CheckHostAndPort(address, 0);
}

absl::Status CheckServer(const std::string& address) {
  const absl::Status status = CheckDialled(address);
  if (status.ok()) return status;
  return absl::InvalidArgumentError(
      absl::StrCat("--server is ", address.empty() ? "''" : address, ": ",
                   status.message()));
}

std::string DefaultServer() {
  const char* const environment = std::getenv("GEMMD_SERVER");
  return environment != nullptr && *environment != '\0' ? environment
                                                        : "localhost:50051";
}

std::string ServerHelp() {
  return absl::StrCat(
      "The daemon: host:port or unix:/path. Default, unless $GEMMD_SERVER "
      "sets another: ",
      DefaultServer(), ".");
}

}  // namespace gemmd::cli
