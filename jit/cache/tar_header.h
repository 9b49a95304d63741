// Headers of a tar archive, POSIX 1003.1-1988 (ustar), with constant owner and
// time: the same members give the same bytes.
#ifndef GEMMD_JIT_CACHE_TAR_HEADER_H_
#define GEMMD_JIT_CACHE_TAR_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd::jit {

inline constexpr size_t kTarBlock = 512;

struct TarMember {
  std::string name;
  uint64_t bytes = 0;
};

// A block. Names have at most 99 characters, sizes 11 octal digits.
std::string EncodeTarHeader(const TarMember& member);

// What `block` describes. DATA_LOSS when it is no block that EncodeTarHeader
// makes; any bytes may be given.
absl::StatusOr<TarMember> DecodeTarHeader(absl::string_view block);

// Zeros that follow the content of a member of `bytes`.
inline size_t TarPadding(uint64_t bytes) {
  return (kTarBlock - bytes % kTarBlock) % kTarBlock;
}

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_TAR_HEADER_H_
