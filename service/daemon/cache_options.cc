#include "service/daemon/cache_options.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "jit/base/file.h"
#include "jit/base/of_option.h"
#include "jit/base/status.h"
#include "jit/base/stream.h"
#include "jit/cache/redis_tier.h"
#include "service/log/log.h"

namespace gemmd::daemon {
namespace {

constexpr int64_t kMaxSecretBytes = 65536;

// The content of the file that `option` names, without the line end that
// editors leave; empty when it names none.
absl::StatusOr<std::string> ReadSecret(absl::string_view option,
                                       const std::string& path) {
  if (path.empty()) return "";
  absl::StatusOr<std::string> secret = jit::ReadFile(path, kMaxSecretBytes);
  if (!secret.ok()) {
    return jit::OfOption(option, path, secret.status().message());
  }
  absl::StripTrailingAsciiWhitespace(&*secret);
  if (secret->empty()) return jit::OfOption(option, path, "it is empty");
  return secret;
}

// What is given of authorities is relied on: what they would not be asked for,
// or could not vouch for, is an error.
absl::Status CheckCaFile(const jit::RedisServer& server) {
  constexpr char kOption[] = "--cache-redis-ca-file";
  if (!server.tls) {
    if (server.ca_file.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(kOption, " needs a --cache-redis of rediss://"));
  }
  const absl::Status status = jit::CheckAuthorities(server.ca_file);
  return status.ok() ? status
                     : jit::OfOption(kOption, server.ca_file, status.message());
}

}  // namespace

absl::StatusOr<jit::KernelCache::Options> CacheOptions(const Options& options) {
  jit::KernelCache::Options cache = options.cache;
  cache.directory_limit_bytes = options.cache_limit_bytes;
  if (!options.redis.empty()) {
    jit::RedisTierOptions shared;
    ASSIGN_OR_RETURN(shared.server, jit::ParseRedisUrl(options.redis));
    ASSIGN_OR_RETURN(
        const std::string password,
        ReadSecret("--cache-redis-password-file", options.redis_password_file));
    if (!password.empty()) shared.server.password = password;
    shared.server.ca_file = options.redis_ca_file;
    RETURN_IF_ERROR(CheckCaFile(shared.server));
    ASSIGN_OR_RETURN(shared.signing_key, ReadSecret("--cache-signing-key-file",
                                                    options.signing_key_file));
    shared.allow_unsigned = options.redis_allow_unsigned;
    auto tier = jit::CreateRedisTier(std::move(shared));
    if (!tier.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          tier.status().message(),
          ". Give --cache-signing-key-file, or --cache-redis-allow-unsigned"));
    }
    cache.shared = *std::move(tier);
  }
  if (cache.require_complete) {
    // It could serve nothing of it, and would say so one request at a time.
    RETURN_IF_ERROR(jit::KernelCache::CheckReadable(cache));
  }
  cache.warn = [](const std::string& text) {
    log::Write(log::Level::kWarning, "cache_trouble", {{"message", text}});
  };
  return cache;
}

}  // namespace gemmd::daemon
