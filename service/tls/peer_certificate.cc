#include "service/tls/peer_certificate.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"

namespace gemmd::tls {
namespace {

constexpr absl::Duration kVerdictLasts = absl::Seconds(1);

void AddName(const char* kind, const ASN1_STRING* text,
             std::vector<std::string>& names) {
  unsigned char* utf8 = nullptr;
  const int size = ASN1_STRING_to_UTF8(&utf8, text);
  if (size <= 0) return;
  std::string name(reinterpret_cast<char*>(utf8), size);
  OPENSSL_free(utf8);
  if (name.find('\0') == name.npos) names.push_back(absl::StrCat(kind, name));
}

void AddSubject(X509* certificate, std::vector<std::string>& names) {
  X509_NAME* const subject = X509_get_subject_name(certificate);
  for (int at = -1;
       (at = X509_NAME_get_index_by_NID(subject, NID_commonName, at)) >= 0;) {
    AddName("CN:", X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)),
            names);
  }
}

void AddAlternatives(X509* certificate, std::vector<std::string>& names) {
  const std::unique_ptr<GENERAL_NAMES, Freed<GENERAL_NAMES_free>> all(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(
          certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; i < sk_GENERAL_NAME_num(all.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(all.get(), i);
    switch (name->type) {
      case GEN_DNS:
        AddName("DNS:", name->d.dNSName, names);
        break;
      case GEN_URI:
        AddName("URI:", name->d.uniformResourceIdentifier, names);
        break;
      case GEN_EMAIL:
        AddName("email:", name->d.rfc822Name, names);
        break;
      default:
        break;
    }
  }
}

}  // namespace

std::unique_ptr<PeerCertificate> PeerCertificate::Of(SSL* ssl) {
  UniqueX509 certificate(SSL_get1_peer_certificate(ssl));
  if (certificate == nullptr) return nullptr;
  STACK_OF(X509)* const chain = SSL_get_peer_cert_chain(ssl);
  UniqueChain copy(chain == nullptr ? nullptr : X509_chain_up_ref(chain));
  return std::unique_ptr<PeerCertificate>(
      new PeerCertificate(std::move(certificate), std::move(copy)));
}

PeerCertificate::PeerCertificate(UniqueX509 certificate, UniqueChain chain)
    : certificate_(std::move(certificate)), chain_(std::move(chain)) {
  AddSubject(certificate_.get(), names_);
  AddAlternatives(certificate_.get(), names_);
  ERR_clear_error();
}

absl::Status PeerCertificate::Check(
    const std::shared_ptr<const Context>& context, absl::Time now) {
  std::lock_guard lock(mutex_);
  if (checked_by_ != context || now - checked_at_ >= kVerdictLasts ||
      now < checked_at_) {
    verdict_ = Verify(*context, now);
    checked_by_ = context;
    checked_at_ = now;
  }
  return verdict_;
}

absl::Status PeerCertificate::Verify(const Context& context,
                                     absl::Time now) const {
  if (context.client_authorities() == nullptr) {
    return absl::UnauthenticatedError(
        "client certificates are not accepted by this daemon");
  }
  const UniqueStoreContext verifier(X509_STORE_CTX_new());
  CHECK(verifier != nullptr);
  CHECK(X509_STORE_CTX_init(verifier.get(), context.client_authorities(),
                            certificate_.get(), chain_.get()) == 1);
  X509_STORE_CTX_set_default(verifier.get(), "ssl_client");
  X509_STORE_CTX_set_time(verifier.get(), 0, absl::ToTimeT(now));
  const bool trusted = X509_verify_cert(verifier.get()) == 1;
  const int error = X509_STORE_CTX_get_error(verifier.get());
  ERR_clear_error();
  if (trusted) return absl::OkStatus();
  return absl::UnauthenticatedError(
      absl::StrCat("the client certificate is not to be trusted: ",
                   X509_verify_cert_error_string(error)));
}

}  // namespace gemmd::tls
