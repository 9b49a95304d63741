// Signed bytes: an HMAC-SHA256 in front of what it is made over.
#ifndef GEMMD_JIT_CACHE_SIGNATURE_H_
#define GEMMD_JIT_CACHE_SIGNATURE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd::jit {

// "GEMMDSIG", 32 bytes of HMAC (zeros without a key), then `bytes`.
std::string Sign(absl::string_view key, absl::string_view bytes);

// What was signed, a view into `bytes`. DATA_LOSS when these are not signed
// bytes or `key` is not empty and did not sign them.
absl::StatusOr<absl::string_view> CheckSignature(absl::string_view key,
                                                 absl::string_view bytes);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_SIGNATURE_H_
