#include "jit/base/sha256.h"

#include <openssl/evp.h>

#include <cstdint>

#include "absl/strings/escaping.h"
#include "jit/base/status.h"

namespace gemmd::jit {

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  CHECK(context_ != nullptr);
  CHECK(EVP_DigestInit_ex(context_, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() { EVP_MD_CTX_free(context_); }

void Sha256::Update(absl::string_view bytes) {
  CHECK(EVP_DigestUpdate(context_, bytes.data(), bytes.size()) == 1);
}

void Sha256::UpdateField(absl::string_view bytes) {
  char length[8];
  for (int i = 0; i < 8; ++i) {
    length[i] = static_cast<char>(uint64_t{bytes.size()} >> (8 * i));
  }
  Update({length, sizeof(length)});
  Update(bytes);
}

std::string Sha256::Bytes() {
  std::string digest(kSha256Bytes, '\0');
  CHECK(EVP_DigestFinal_ex(context_,
                           reinterpret_cast<unsigned char*>(digest.data()),
                           nullptr) == 1);
  return digest;
}

std::string Sha256::Hex() { return absl::BytesToHexString(Bytes()); }

std::string Sha256Of(absl::string_view bytes) {
  Sha256 sha256;
  sha256.Update(bytes);
  return sha256.Bytes();
}

bool IsSha256Hex(absl::string_view text) {
  return text.size() == 2 * kSha256Bytes &&
         text.find_first_not_of("0123456789abcdef") == text.npos;
}

}  // namespace gemmd::jit
