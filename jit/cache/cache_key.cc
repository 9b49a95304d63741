#include "jit/cache/cache_key.h"

#include "jit/base/record.h"
#include "jit/base/sha256.h"

namespace gemmd::jit {

std::string CacheKey(const Source& source,
                     const std::vector<std::string>& options,
                     absl::string_view compiler) {
  return CacheKeyOfDigest(source.digest(), options, compiler);
}

std::string CacheKeyOfDigest(absl::string_view source_digest,
                             const std::vector<std::string>& options,
                             absl::string_view compiler) {
  std::string head = "gemmd kernel";
  AppendU32(head, kCacheFormat);
  AppendU64(head, options.size());
  Sha256 sha256;
  sha256.UpdateField(head);
  for (const std::string& option : options) sha256.UpdateField(option);
  sha256.UpdateField(compiler);
  sha256.UpdateField(source_digest);
  return sha256.Hex();
}

}  // namespace gemmd::jit
