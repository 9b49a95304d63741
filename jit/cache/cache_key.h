// What a compiled kernel is stored under: SHA-256 over everything that decides
// its bytes. No path, time or name takes part, so that machines agree.
//
// The source takes part through its own SHA-256, which whoever has the source
// has already: two sources have one key only if SHA-256 collides, as before,
// and a look-up costs the same whatever the length of the source.
#ifndef GEMMD_JIT_CACHE_CACHE_KEY_H_
#define GEMMD_JIT_CACHE_CACHE_KEY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "jit/source/source.h"

namespace gemmd::jit {

// Version of keys and entries. A build reads no entry of another version.
//   1: the key is over the whole source.
//   2: over the digest of the source.
//   3: an entry starts with a summary.
inline constexpr uint32_t kCacheFormat = 3;

// `options`: everything on the compiler's command line, the architecture
// included. `compiler`: Compiler::identity(). 64 hexadecimal digits.
std::string CacheKey(const Source& source,
                     const std::vector<std::string>& options,
                     absl::string_view compiler);
// The same, given Source::digest().
std::string CacheKeyOfDigest(absl::string_view source_digest,
                             const std::vector<std::string>& options,
                             absl::string_view compiler);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_CACHE_KEY_H_
