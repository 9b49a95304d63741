#include "clients/cpp/security.h"

#include <arpa/inet.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "clients/cpp/pem.h"
#include "jit/base/status.h"
#include "jit/base/steady_time.h"

namespace gemmd::client {
namespace {

constexpr absl::Duration kTokenLasts = absl::Seconds(10);
// Of a file: all authorities of a system have a hundredth of it.
constexpr size_t kMostBytes = 16 << 20;

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

// `why` goes on after "which".
absl::Status Wrong(absl::string_view what, const std::string& path,
                   absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is ", path, ", which ", why));
}

absl::StatusOr<std::string> Read(absl::string_view what,
                                 const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen(path.c_str(), "rbe"), std::fclose);
  const auto unreadable = [&] {
    return Wrong(what, path,
                 absl::StrCat("cannot be read: ", std::strerror(errno)));
  };
  if (file == nullptr) return unreadable();
  std::string text;
  std::array<char, 64 << 10> block;
  while (const size_t size =
             std::fread(block.data(), 1, block.size(), file.get())) {
    text.append(block.data(), size);
    if (text.size() > kMostBytes) {
      return Wrong(what, path,
                   absl::StrCat("has more than ", kMostBytes, " bytes"));
    }
  }
  if (std::ferror(file.get()) != 0) return unreadable();
  if (text.empty()) return Wrong(what, path, "is empty");
  return text;
}

// What `check` takes.
absl::StatusOr<std::string> ReadPem(absl::string_view what,
                                    const std::string& path,
                                    absl::Status (*check)(const std::string&)) {
  ASSIGN_OR_RETURN(std::string pem, Read(what, path));
  const absl::Status right = check(pem);
  if (!right.ok()) return Wrong(what, path, right.message());
  return pem;
}

// The host of what gRPC dials; empty when there are several, or one that
// another name server looks up. To gRPC %2C is a comma.
absl::string_view HostOf(absl::string_view target) {
  if (target.find_first_of(",%") != target.npos) return "";
  for (const char* const scheme : {"dns:///", "dns:", "ipv4:", "ipv6:"}) {
    if (absl::ConsumePrefix(&target, scheme)) break;
  }
  if (absl::StartsWith(target, "[")) {
    return target.substr(1, target.find(']') - 1);
  }
  return target.substr(0, target.find(':'));
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
    ASSIGN_OR_RETURN(options.pem_root_certs,
                     ReadPem("ca-file", security.ca_file, CheckCertificates));
  }
  if (!security.certificate_file.empty()) {
    ASSIGN_OR_RETURN(options.pem_cert_chain,
                     ReadPem("certificate-file", security.certificate_file,
                             CheckCertificates));
    ASSIGN_OR_RETURN(options.pem_private_key,
                     ReadPem("key-file", security.key_file, CheckKey));
    const absl::Status pair =
        CheckPair(options.pem_cert_chain, options.pem_private_key);
    if (!pair.ok()) {
      return Wrong(
          "key-file", security.key_file,
          absl::StrCat(pair.message(), " in ", security.certificate_file));
    }
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
  opened->tried_ = jit::SteadyNow();
  return opened;
}

absl::StatusOr<std::string> Authorization::Read() const {
  ASSIGN_OR_RETURN(std::string token, client::Read("token-file", token_file_));
  absl::StripAsciiWhitespace(&token);
  const bool visible = absl::c_all_of(
      token, [](unsigned char c) { return absl::ascii_isgraph(c); });
  if (token.empty() || !visible) {
    return Wrong("token-file", token_file_,
                 "holds no token: one line of visible characters");
  }
  return absl::StrCat("Bearer ", token);
}

std::string Authorization::Get() {
  if (token_file_.empty()) return "";
  const absl::Time now = jit::SteadyNow();
  std::lock_guard lock(mutex_);
  if (now - tried_ >= kTokenLasts || now < tried_) {
    absl::StatusOr<std::string> next = Read();
    if (next.ok()) value_ = *std::move(next);
    tried_ = now;
  }
  return value_;
}

}  // namespace gemmd::client
