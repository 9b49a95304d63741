// SHA-256, by OpenSSL. Thread-compatible.
#ifndef GEMMD_JIT_SHA256_H_
#define GEMMD_JIT_SHA256_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

struct evp_md_ctx_st;

namespace gemmd::jit {

class Sha256 {
 public:
  Sha256();
  ~Sha256();

  void Update(absl::string_view bytes);
  // Length, then bytes: two fields never run into each other.
  void UpdateField(absl::string_view bytes);
  // Ends the digest: 64 hexadecimal digits. Call once.
  std::string Hex();

 private:
  evp_md_ctx_st* const context_;
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_SHA256_H_
