#include "clients/cpp/security.h"

#include <arpa/inet.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "jit/base/status.h"

namespace gemmd::client {
namespace {

constexpr absl::Duration kTokenLasts = absl::Seconds(10);

constexpr SecurityOption kOptions[] = {
    {"ca-file", "GEMMD_CA_FILE",
     "Authorities, in PEM, whom the daemon's certificate is trusted by, or "
     "system for those of the system. Makes the connection TLS.",
     &Security::ca_file},
    {"certificate-file", "GEMMD_CERTIFICATE_FILE",
     "The client's own certificate, in PEM.", &Security::certificate_file},
    {"key-file", "GEMMD_KEY_FILE", "Its key, in PEM.", &Security::key_file},
    {"token-file", "GEMMD_TOKEN_FILE",
     "A token that says who calls; never sent in plaintext to another machine.",
     &Security::token_file},
};

absl::StatusOr<std::string> Read(absl::string_view what,
                                 const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file || text.str().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " is ", path, ", which cannot be read or is empty"));
  }
  return text.str();
}

// The host of what gRPC dials; empty when there are several, or one that
// another name server looks up.
absl::string_view HostOf(absl::string_view target) {
  if (absl::StrContains(target, ',')) return "";
  for (const char* const scheme : {"dns:///", "dns:", "ipv4:", "ipv6:"}) {
    if (absl::ConsumePrefix(&target, scheme)) break;
  }
  if (absl::StartsWith(target, "[")) {
    return target.substr(1, target.find(']') - 1);
  }
  return target.substr(0, target.find(':'));
}

bool IsThisMachine(absl::string_view target) {
  if (absl::StartsWith(target, "unix:") ||
      absl::StartsWith(target, "unix-abstract:")) {
    return true;
  }
  const std::string host(HostOf(target));
  in_addr v4;
  in6_addr v6;
  return host == "localhost" ||
         (inet_pton(AF_INET, host.c_str(), &v4) == 1 &&
          ntohl(v4.s_addr) >> 24 == 127) ||
         (inet_pton(AF_INET6, host.c_str(), &v6) == 1 &&
          IN6_IS_ADDR_LOOPBACK(&v6));
}

absl::Status ReadConfig(const std::string& path, Security& security) {
  ASSIGN_OR_RETURN(const std::string text, Read("GEMMD_CONFIG", path));
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    const std::pair<absl::string_view, absl::string_view> both =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    const absl::string_view name = absl::StripAsciiWhitespace(both.first);
    absl::string_view value = absl::StripAsciiWhitespace(both.second);
    if (value.size() > 1 && value.front() == '"' && value.back() == '"') {
      value = value.substr(1, value.size() - 2);
    }
    bool known = false;
    for (const SecurityOption& option : kOptions) {
      if (name != option.name || value.empty()) continue;
      security.*option.file = std::string(value);
      known = true;
    }
    if (!known) {
      return absl::InvalidArgumentError(
          absl::StrCat("GEMMD_CONFIG is ", path, ", whose line ", number,
                       " is wrong; allowed: ca-file, certificate-file, "
                       "key-file or token-file = PATH"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Span<const SecurityOption> SecurityOptions() { return kOptions; }

absl::StatusOr<Security> Security::Default() {
  Security security;
  const char* const config = std::getenv("GEMMD_CONFIG");
  if (config != nullptr && *config != '\0') {
    RETURN_IF_ERROR(ReadConfig(config, security));
  }
  for (const SecurityOption& option : kOptions) {
    const char* const value = std::getenv(option.environment);
    if (value != nullptr && *value != '\0') security.*option.file = value;
  }
  return security;
}

absl::Status CheckSecurity(const Security& security,
                           const std::string& target) {
  if (security.certificate_file.empty() != security.key_file.empty()) {
    return absl::InvalidArgumentError(
        "certificate-file and key-file go together");
  }
  if (!security.token_file.empty() && !security.tls() &&
      !IsThisMachine(target)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the token of token-file is not sent to ", target,
        " in plaintext; allowed: TLS, by ca-file, or a daemon of this machine "
        "(unix:, 127.0.0.1, [::1], localhost)"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsOf(
    const Security& security) {
  if (!security.tls()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  if (!security.ca_file.empty() && security.ca_file != "system") {
    ASSIGN_OR_RETURN(options.pem_root_certs, Read("ca-file", security.ca_file));
  }
  if (!security.certificate_file.empty()) {
    ASSIGN_OR_RETURN(options.pem_cert_chain,
                     Read("certificate-file", security.certificate_file));
    ASSIGN_OR_RETURN(options.pem_private_key,
                     Read("key-file", security.key_file));
  }
  return grpc::SslCredentials(options);
}

absl::StatusOr<std::unique_ptr<Authorization>> Authorization::Open(
    std::string token_file) {
  auto opened =
      std::unique_ptr<Authorization>(new Authorization(std::move(token_file)));
  if (opened->token_file_.empty()) return opened;
  std::lock_guard lock(opened->mutex_);
  ASSIGN_OR_RETURN(opened->value_, opened->Read());
  opened->tried_ = absl::Now();
  return opened;
}

absl::StatusOr<std::string> Authorization::Read() const {
  ASSIGN_OR_RETURN(std::string token, client::Read("token-file", token_file_));
  absl::StripAsciiWhitespace(&token);
  for (const char c : token) {
    if (absl::ascii_isgraph(static_cast<unsigned char>(c))) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("token-file is ", token_file_,
                     ", which holds no token: one line of visible characters"));
  }
  return absl::StrCat("Bearer ", token);
}

std::string Authorization::Get() {
  if (token_file_.empty()) return "";
  const absl::Time now = absl::Now();
  std::lock_guard lock(mutex_);
  if (now - tried_ >= kTokenLasts || now < tried_) {
    absl::StatusOr<std::string> next = Read();
    if (next.ok()) value_ = *std::move(next);
    tried_ = now;
  }
  return value_;
}

}  // namespace gemmd::client
