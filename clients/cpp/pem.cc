#include "clients/cpp/pem.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>

#include "jit/base/status.h"

namespace gemmd::client {
namespace {

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using UniqueBio = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using UniqueX509 = std::unique_ptr<X509, Freed<X509_free>>;
using UniqueKey = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

absl::Status Wrong(absl::string_view what) {
  ERR_clear_error();  // Of this thread, who else uses OpenSSL finds none.
  return absl::InvalidArgumentError(what);
}

UniqueBio BytesOf(const std::string& pem) {
  return UniqueBio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// There is nobody to ask.
int NoPassword(char*, int, int, void*) { return 0; }

UniqueX509 NextCertificate(BIO* bytes) {
  return UniqueX509(PEM_read_bio_X509(bytes, nullptr, NoPassword, nullptr));
}

UniqueKey KeyOf(const std::string& pem) {
  return UniqueKey(PEM_read_bio_PrivateKey(BytesOf(pem).get(), nullptr,
                                           NoPassword, nullptr));
}

// Whether there was nothing that begins like an object in PEM.
bool WasTheEnd() {
  const unsigned long error = ERR_peek_last_error();
  return ERR_GET_LIB(error) == ERR_LIB_PEM &&
         ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
}

}  // namespace

absl::Status CheckCertificates(const std::string& pem) {
  const UniqueBio bytes = BytesOf(pem);
  int count = 0;
  while (NextCertificate(bytes.get()) != nullptr) ++count;
  if (!WasTheEnd()) return Wrong("holds a certificate that is not whole");
  if (count == 0) return Wrong("holds no certificate in PEM");
  ERR_clear_error();
  return absl::OkStatus();
}

absl::Status CheckKey(const std::string& pem) {
  if (KeyOf(pem) != nullptr) return absl::OkStatus();
  return Wrong("holds no whole key in PEM, or an encrypted one");
}

absl::Status CheckPair(const std::string& certificates,
                       const std::string& key) {
  const UniqueX509 own = NextCertificate(BytesOf(certificates).get());
  const UniqueKey its = KeyOf(key);
  if (own != nullptr && its != nullptr &&
      X509_check_private_key(own.get(), its.get()) == 1) {
    return absl::OkStatus();
  }
  return Wrong("holds another key than that of the certificate");
}

}  // namespace gemmd::client
