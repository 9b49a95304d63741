#include "jit/cache/signature.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "jit/base/sha256.h"
#include "jit/base/status.h"

namespace gemmd::jit {
namespace {

constexpr absl::string_view kMagic = "GEMMDSIG";

std::string Hmac(absl::string_view key, absl::string_view bytes) {
  std::string mac(kSha256Bytes, '\0');
  if (key.empty()) return mac;
  CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
             reinterpret_cast<unsigned char*>(mac.data()), nullptr) != nullptr);
  return mac;
}

}  // namespace

std::string Sign(absl::string_view key, absl::string_view bytes) {
  return absl::StrCat(kMagic, Hmac(key, bytes), bytes);
}

absl::StatusOr<absl::string_view> CheckSignature(absl::string_view key,
                                                 absl::string_view bytes) {
  if (bytes.size() < kMagic.size() + kSha256Bytes ||
      !absl::StartsWith(bytes, kMagic)) {
    return absl::DataLossError("bytes are not signed");
  }
  const absl::string_view mac = bytes.substr(kMagic.size(), kSha256Bytes);
  const absl::string_view rest = bytes.substr(kMagic.size() + kSha256Bytes);
  // In constant time: how much of a guess is right must not show.
  if (!key.empty() &&
      CRYPTO_memcmp(Hmac(key, rest).data(), mac.data(), kSha256Bytes) != 0) {
    return absl::DataLossError("bytes are not signed with the configured key");
  }
  return rest;
}

}  // namespace gemmd::jit
