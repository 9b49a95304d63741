#include "tests/service/tls/certificates.h"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "jit/base/status.h"

namespace gemmd::testing {
namespace {

void Extend(X509* certificate, X509* authority, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, authority, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension =
      X509V3_EXT_conf_nid(nullptr, &context, kind, value);
  CHECK(extension != nullptr);
  CHECK(X509_add_ext(certificate, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

std::string Text(BIO* bytes) {
  char* text = nullptr;
  const long size = BIO_get_mem_data(bytes, &text);
  return std::string(text, static_cast<size_t>(size));
}

}  // namespace

Certificate::Certificate(const Options& options)
    : key_(EVP_EC_gen("P-256")), certificate_(X509_new()) {
  X509* const own = certificate_.get();
  CHECK(key_ != nullptr && own != nullptr);
  X509_set_version(own, 2);
  uint64_t serial = 0;
  CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), 8) == 1);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(own), serial >> 1);
  ASN1_TIME_set(X509_getm_notBefore(own), absl::ToTimeT(options.from));
  ASN1_TIME_set(X509_getm_notAfter(own), absl::ToTimeT(options.until));
  if (!options.has_times) {
    CHECK(ASN1_STRING_set(X509_getm_notAfter(own), "soon", -1) == 1);
  }
  X509_set_pubkey(own, key_.get());
  X509_NAME* const subject = X509_get_subject_name(own);
  X509_NAME_add_entry_by_txt(
      subject, "CN", MBSTRING_UTF8,
      reinterpret_cast<const unsigned char*>(options.name.data()),
      static_cast<int>(options.name.size()), -1, 0);
  const Certificate& authority =
      options.authority == nullptr ? *this : *options.authority;
  X509_set_issuer_name(own,
                       X509_get_subject_name(authority.certificate_.get()));
  const auto extend = [&](int kind, const char* value) {
    Extend(own, authority.certificate_.get(), kind, value);
  };
  // Authorities of one name are told apart by their keys.
  extend(NID_subject_key_identifier, "hash");
  if (options.authority != nullptr) {
    extend(NID_authority_key_identifier, "keyid:always");
  }
  if (options.is_authority) extend(NID_basic_constraints, "critical,CA:TRUE");
  if (options.for_servers) extend(NID_ext_key_usage, "serverAuth");
  if (!options.alternatives.empty()) {
    extend(NID_subject_alt_name, options.alternatives.c_str());
  }
  CHECK(X509_sign(own, authority.key_.get(), EVP_sha256()) > 0);
}

std::string Certificate::Pem() const {
  const tls::UniqueBio bytes(BIO_new(BIO_s_mem()));
  CHECK(PEM_write_bio_X509(bytes.get(), certificate_.get()) == 1);
  return Text(bytes.get());
}

std::string Certificate::KeyPem() const {
  const tls::UniqueBio bytes(BIO_new(BIO_s_mem()));
  CHECK(PEM_write_bio_PrivateKey(bytes.get(), key_.get(), nullptr, nullptr, 0,
                                 nullptr, nullptr) == 1);
  return Text(bytes.get());
}

}  // namespace gemmd::testing
