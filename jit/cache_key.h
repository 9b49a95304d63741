// What a compiled kernel is stored under: SHA-256 over everything that decides
// its bytes. No path, time or name takes part, so that machines agree.
#ifndef GEMMD_JIT_CACHE_KEY_H_
#define GEMMD_JIT_CACHE_KEY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gemmd::jit {

// Version of keys and entries. A build reads no entry of another version.
inline constexpr uint32_t kCacheFormat = 1;

// `options`: everything on the compiler's command line, the architecture
// included. `compiler`: Compiler::identity(). 64 hexadecimal digits.
std::string CacheKey(absl::string_view source,
                     const std::vector<std::string>& options,
                     absl::string_view compiler);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_KEY_H_
