// OpenSSL's objects, each with its owner.
#ifndef GEMMD_SERVICE_TLS_HANDLES_H_
#define GEMMD_SERVICE_TLS_HANDLES_H_

#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>

namespace gemmd::tls {

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
inline void FreeChain(STACK_OF(X509) * chain) {
  sk_X509_pop_free(chain, X509_free);
}

using UniqueBio = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using UniqueSsl = std::unique_ptr<SSL, Freed<SSL_free>>;
using UniqueSslContext = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;
using UniqueStore = std::unique_ptr<X509_STORE, Freed<X509_STORE_free>>;
using UniqueStoreContext =
    std::unique_ptr<X509_STORE_CTX, Freed<X509_STORE_CTX_free>>;
using UniqueX509 = std::unique_ptr<X509, Freed<X509_free>>;
using UniqueChain = std::unique_ptr<STACK_OF(X509), Freed<FreeChain>>;
using UniqueKey = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

}  // namespace gemmd::tls

#endif  // GEMMD_SERVICE_TLS_HANDLES_H_
