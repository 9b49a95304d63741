#include "jit/cache/redis_server_url.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "jit/base/status.h"

namespace gemmd::jit {
namespace {

constexpr char kDefaultPort[] = "6379";

absl::Status Wrong(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the address of the Redis server ", what,
                   "; allowed: redis://[user[:password]@]host[:port], "
                   "rediss://..., unix:/path, host:port"));
}

// `text` with each %XX replaced by the byte that it stands for.
absl::StatusOr<std::string> Unescape(absl::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain.push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size() || !absl::ascii_isxdigit(text[i + 1]) ||
        !absl::ascii_isxdigit(text[i + 2])) {
      return Wrong("has a % without two hexadecimal digits");
    }
    plain += absl::HexStringToBytes(text.substr(i + 1, 2));
    i += 2;
  }
  return plain;
}

// "host[:port]" with its port.
absl::StatusOr<std::string> Address(absl::string_view text) {
  // Before the port, of which "6379/0" is none.
  if (text.find_first_of("/?#@ ") != text.npos) {
    return Wrong("has more than a host and a port, such as a database");
  }
  const size_t bracket = text.rfind(']');
  const size_t colon = text.rfind(':');
  const bool has_port =
      colon != text.npos && (bracket == text.npos || colon > bracket);
  const absl::string_view host = has_port ? text.substr(0, colon) : text;
  const absl::string_view port =
      has_port ? text.substr(colon + 1) : kDefaultPort;
  int number = 0;
  if (!absl::SimpleAtoi(port, &number) || number < 1 || number > 65535) {
    return Wrong("has a port that is not 1 to 65535");
  }
  if (host.empty() || host == "[]") return Wrong("has no host");
  if (!absl::StartsWith(host, "[") && absl::StrContains(host, ':')) {
    return Wrong("has an IPv6 host without brackets");
  }
  return absl::StrCat(host, ":", port);
}

}  // namespace

absl::StatusOr<RedisServer> ParseRedisUrl(absl::string_view url) {
  RedisServer server;
  if (absl::StartsWith(url, "unix:")) {
    if (url.size() == 5) return Wrong("has no path");
    server.address = std::string(url);
    return server;
  }
  absl::string_view rest = url;
  server.tls = absl::ConsumePrefix(&rest, "rediss://");
  const bool has_scheme = server.tls || absl::ConsumePrefix(&rest, "redis://");
  if (!has_scheme && absl::StrContains(url, "://")) {
    return Wrong("has another scheme");
  }
  if (has_scheme) {
    absl::ConsumeSuffix(&rest, "/");
    const size_t at = rest.rfind('@');
    if (at != rest.npos) {
      const absl::string_view who = rest.substr(0, at);
      const size_t colon = who.find(':');
      ASSIGN_OR_RETURN(server.user, Unescape(who.substr(0, colon)));
      if (colon != who.npos) {
        ASSIGN_OR_RETURN(server.password, Unescape(who.substr(colon + 1)));
      }
      rest.remove_prefix(at + 1);
    }
  }
  ASSIGN_OR_RETURN(server.address, Address(rest));
  return server;
}

std::string HostOf(const std::string& address) {
  absl::string_view host =
      absl::string_view(address).substr(0, address.rfind(':'));
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  return std::string(host);
}

}  // namespace gemmd::jit
