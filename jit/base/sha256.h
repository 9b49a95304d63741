// SHA-256, by OpenSSL. Thread-compatible.
#ifndef GEMMD_JIT_BASE_SHA256_H_
#define GEMMD_JIT_BASE_SHA256_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

struct evp_md_ctx_st;

namespace gemmd::jit {

inline constexpr size_t kSha256Bytes = 32;

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(absl::string_view bytes);
  // Length, then bytes: two fields never run into each other.
  void UpdateField(absl::string_view bytes);
  // Each ends the digest: its 32 bytes, or 64 lower-case hexadecimal digits.
  // Call one of them, once.
  std::string Bytes();
  std::string Hex();

 private:
  evp_md_ctx_st* const context_;
};

// The 32 bytes of the digest of `bytes`.
std::string Sha256Of(absl::string_view bytes);

// Whether `text` is 64 lower-case hexadecimal digits: what a cache key looks
// like, and so what may become a file name.
bool IsSha256Hex(absl::string_view text);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_BASE_SHA256_H_
