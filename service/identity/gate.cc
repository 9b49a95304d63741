#include "service/identity/gate.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "jit/base/of_option.h"
#include "jit/base/status.h"
#include "jit/base/watched_file.h"

namespace gemmd::identity {
namespace {

constexpr int64_t kMaxFileBytes = 16 << 20;
constexpr size_t kLeastTokenBytes = 16;
constexpr size_t kMostTokenBytes = 1024;

// The token of "Bearer TOKEN". UNAUTHENTICATED repeats nothing of it.
absl::StatusOr<absl::string_view> TokenOf(
    absl::Span<const absl::string_view> authorization) {
  constexpr absl::string_view kScheme = "Bearer ";
  const absl::string_view value = authorization.front();
  const bool bearer =
      authorization.size() == 1 && absl::StartsWithIgnoreCase(value, kScheme);
  const absl::string_view token = bearer ? value.substr(kScheme.size()) : "";
  bool visible = true;
  for (const char c : token) {
    visible = visible && absl::ascii_isgraph(static_cast<unsigned char>(c));
  }
  if (!visible || token.size() < kLeastTokenBytes ||
      token.size() > kMostTokenBytes) {
    return absl::UnauthenticatedError(absl::StrCat(
        "the metadata authorization is malformed; allowed: once, \"Bearer \" "
        "and a token of ",
        kLeastTokenBytes, " to ", kMostTokenBytes, " visible characters"));
  }
  return token;
}

absl::StatusOr<Caller> OrNobody(PrincipalPointer principal, Proof proof,
                                absl::string_view what) {
  if (principal != nullptr) return Caller{std::move(principal), proof};
  return absl::UnauthenticatedError(
      absl::StrCat(what, " stands for no principal of this daemon"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Gate>> Gate::Open(Files files,
                                                 UserFinder find_user) {
  auto gate =
      std::unique_ptr<Gate>(new Gate(std::move(files), std::move(find_user)));
  RETURN_IF_ERROR(gate->Reload().status());
  return gate;
}

absl::StatusOr<Gate::Content> Gate::Read() const {
  Content content;
  const auto read = [](absl::string_view option, const std::string& path,
                       std::string& to) -> absl::Status {
    if (path.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(to, jit::ReadWatchedFile(option, path, kMaxFileBytes));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(read("--policy-file", files_.policy, content.policy));
  RETURN_IF_ERROR(
      read("--token-digest-file", files_.token_digests, content.token_digests));
  return content;
}

absl::Status Gate::Load(const Content& content) {
  absl::StatusOr<Policy> policy = Policy::Parse(content.policy, find_user_);
  if (!policy.ok()) {
    return jit::OfOption("--policy-file", files_.policy,
                         policy.status().message());
  }
  absl::StatusOr<TokenTable> tokens = TokenTable::Parse(content.token_digests);
  if (!tokens.ok()) {
    return jit::OfOption("--token-digest-file", files_.token_digests,
                         tokens.status().message());
  }
  auto known =
      std::make_shared<const Known>(*std::move(policy), *std::move(tokens));
  std::lock_guard lock(mutex_);
  known_ = std::move(known);
  return absl::OkStatus();
}

absl::StatusOr<bool> Gate::Reload() {
  return loaded_.Load(Read(),
                      [this](const Content& content) { return Load(content); });
}

std::shared_ptr<const Gate::Known> Gate::known() const {
  std::lock_guard lock(mutex_);
  return known_;
}

std::shared_ptr<const Policy> Gate::policy() const {
  std::shared_ptr<const Known> all = known();
  return {all, &all->policy};
}

absl::StatusOr<Caller> Gate::Identify(const Credentials& credentials,
                                      absl::Time now) const {
  const std::shared_ptr<const Known> all = known();
  if (!credentials.authorization.empty()) {
    ASSIGN_OR_RETURN(const absl::string_view token,
                     TokenOf(credentials.authorization));
    ASSIGN_OR_RETURN(const std::string name, all->tokens.Check(token, now));
    // A principal that was taken out of the policy takes its tokens along.
    return OrNobody(all->policy.Named(name), Proof::kToken, "the token");
  }
  if (!credentials.certificate_names.empty()) {
    return OrNobody(all->policy.OfCertificate(credentials.certificate_names),
                    Proof::kCertificate, "the client certificate");
  }
  if (credentials.user.has_value()) {
    return OrNobody(all->policy.OfUser(*credentials.user), Proof::kUnixUser,
                    "the user of this connection");
  }
  return absl::UnauthenticatedError(
      "credentials are missing; allowed: a token in the metadata "
      "authorization (\"Bearer TOKEN\"), a client certificate over TLS, or a "
      "Unix socket");
}

}  // namespace gemmd::identity
