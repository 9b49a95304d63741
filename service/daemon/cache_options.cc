#include "service/daemon/cache_options.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "jit/base/file.h"
#include "jit/base/status.h"
#include "jit/cache/redis_tier.h"
#include "service/log/log.h"

ABSL_FLAG(int64_t, cache_limit_bytes, int64_t{4} << 30,
          "Most that the cache directory may hold, least recently used "
          "kernels go first; 0: no limit.");
ABSL_FLAG(std::vector<std::string>, cache_layers, {},
          "Cache directories that are only read, as in a container image, "
          "separated by commas; asked before --cache_dir.");
ABSL_FLAG(std::string, cache_redis, "",
          "Redis server whose kernels machines share: \"host:port\" or "
          "\"unix:/path\"; empty: none.");
ABSL_FLAG(std::string, cache_redis_password_file, "",
          "File with the password of --cache_redis; empty: none is sent.");
ABSL_FLAG(std::string, cache_signing_key_file, "",
          "File with the key that signs what is put on --cache_redis; what is "
          "found there without that signature is ignored. Empty: no "
          "signatures.");
ABSL_FLAG(bool, require_complete, false,
          "Compile nothing: a kernel that is not in the cache is an error. "
          "For production, with a cache that gemm-warmup prepared.");

namespace gemmd::daemon {
namespace {

constexpr int64_t kMaxSecretBytes = 65536;

// The content of the file that `flag` names, without the line end that editors
// leave; empty when it names none.
absl::StatusOr<std::string> ReadSecret(const absl::Flag<std::string>& flag,
                                       absl::string_view name) {
  const std::string path = absl::GetFlag(flag);
  if (path.empty()) return "";
  absl::StatusOr<std::string> file = jit::ReadFile(path, kMaxSecretBytes);
  std::string secret = file.ok() ? *std::move(file) : "";
  absl::StripTrailingAsciiWhitespace(&secret);
  if (secret.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, " names a file that is empty or unreadable"));
  }
  return secret;
}

}  // namespace

absl::StatusOr<jit::KernelCache::Options> CacheOptions(
    const std::string& directory) {
  jit::KernelCache::Options options;
  options.directory = directory;
  options.directory_limit_bytes = absl::GetFlag(FLAGS_cache_limit_bytes);
  if (options.directory_limit_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--cache_limit_bytes is ", options.directory_limit_bytes,
                     "; allowed: from 0"));
  }
  options.layers = absl::GetFlag(FLAGS_cache_layers);
  const std::string redis = absl::GetFlag(FLAGS_cache_redis);
  if (!redis.empty()) {
    jit::RedisTierOptions shared;
    shared.server.address = redis;
    ASSIGN_OR_RETURN(shared.server.password,
                     ReadSecret(FLAGS_cache_redis_password_file,
                                "cache_redis_password_file"));
    ASSIGN_OR_RETURN(
        shared.signing_key,
        ReadSecret(FLAGS_cache_signing_key_file, "cache_signing_key_file"));
    options.shared = jit::CreateRedisTier(std::move(shared));
  }
  options.require_complete = absl::GetFlag(FLAGS_require_complete);
  if (options.require_complete) {
    // It could serve nothing of it, and would say so one request at a time.
    RETURN_IF_ERROR(jit::KernelCache::CheckReadable(options));
  }
  options.warn = [](const std::string& text) {
    log::Write(log::Level::kWarning, "cache_trouble", {{"message", text}});
  };
  return options;
}

}  // namespace gemmd::daemon
