#include "service/tls/context.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include "absl/strings/str_cat.h"
#include "jit/base/of_option.h"
#include "jit/base/status.h"

namespace gemmd::tls {
namespace {

// Of encrypted bytes, read from the socket at a time.
constexpr size_t kReadBufferBytes = 64 << 10;

absl::Status Wrong(absl::string_view what) {
  ERR_clear_error();
  return absl::InvalidArgumentError(what);
}

// `status`, whose text says what is wrong with the file of `option`.
absl::Status Of(absl::string_view option, const std::string& path,
                const absl::Status& status) {
  return status.ok() ? status : jit::OfOption(option, path, status.message());
}

UniqueBio BytesOf(const std::string& pem) {
  return UniqueBio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// Of an encrypted key: there is nobody to ask.
int NoPassword(char*, int, int, void*) { return 0; }

UniqueX509 NextCertificate(BIO* bytes) {
  return UniqueX509(PEM_read_bio_X509(bytes, nullptr, NoPassword, nullptr));
}

// Whether that there is no next one is the end of the file, and not one that
// was written in part: it would be missing among the others.
bool WasTheEnd() {
  const unsigned long error = ERR_peek_last_error();
  ERR_clear_error();
  return ERR_GET_LIB(error) == ERR_LIB_PEM &&
         ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
}

absl::Status UseCertificates(SSL_CTX* context, const std::string& pem) {
  const UniqueBio bytes = BytesOf(pem);
  const UniqueX509 own = NextCertificate(bytes.get());
  if (own == nullptr)
    return Wrong("the file of certificates holds none in PEM");
  if (SSL_CTX_use_certificate(context, own.get()) != 1) {
    return Wrong("the certificate is too weak or of an unknown kind");
  }
  while (UniqueX509 next = NextCertificate(bytes.get())) {
    if (SSL_CTX_add1_chain_cert(context, next.get()) != 1) {
      return Wrong("an intermediate certificate is not to be used");
    }
  }
  if (!WasTheEnd()) {
    return Wrong("a certificate behind the first one is not whole");
  }
  return absl::OkStatus();
}

absl::Status UseKey(SSL_CTX* context, const std::string& pem) {
  const UniqueKey key(PEM_read_bio_PrivateKey(BytesOf(pem).get(), nullptr,
                                              NoPassword, nullptr));
  if (key == nullptr) {
    return Wrong("the file of the key holds none in PEM, or an encrypted one");
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 ||
      SSL_CTX_check_private_key(context) != 1) {
    return Wrong("the key is not that of the certificate");
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueStore> StoreOf(const std::string& pem) {
  UniqueStore store(X509_STORE_new());
  CHECK(store != nullptr);
  const UniqueBio bytes = BytesOf(pem);
  int count = 0;
  while (const UniqueX509 next = NextCertificate(bytes.get())) {
    if (X509_STORE_add_cert(store.get(), next.get()) != 1) {
      return Wrong("an authority of clients is not to be used");
    }
    ++count;
  }
  const bool whole = WasTheEnd();
  if (count == 0) {
    return Wrong(
        "the file of clients' authorities holds no certificate in PEM");
  }
  if (!whole) return Wrong("an authority of clients is not whole");
  return store;
}

// Clients are asked for h2; who does not speak it is no client.
int SelectHttp2(SSL*, const unsigned char** out, unsigned char* out_size,
                const unsigned char* in, unsigned int in_size, void*) {
  static constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  unsigned char* selected = nullptr;
  if (SSL_select_next_proto(&selected, out_size, kHttp2, sizeof kHttp2, in,
                            in_size) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *out = selected;
  return SSL_TLSEXT_ERR_OK;
}

absl::StatusOr<absl::Time> TimeOf(const ASN1_TIME* time) {
  tm fields = {};
  if (ASN1_TIME_to_tm(time, &fields) != 1) {
    return Wrong("the certificate does not say when it begins and ends");
  }
  return absl::FromTM(fields, absl::UTCTimeZone());
}

// Whoever connects may show one that nobody vouches for, and it is kept for as
// long as he stays: some kilobytes with all that came along, and a part of that
// of names, which are many times as large once they are read.
constexpr long kMostCertificateBytes = 16 << 10;
constexpr int kMostNameBytes = 4 << 10;

// Of its names, but for the subject.
int NameBytes(const X509* certificate) {
  int bytes = 0;
  for (int at = -1; (at = X509_get_ext_by_NID(certificate, NID_subject_alt_name,
                                              at)) >= 0;) {
    bytes += ASN1_STRING_length(
        X509_EXTENSION_get_data(X509_get_ext(certificate, at)));
  }
  return bytes;
}

// A certificate is judged when a call is made with it, so that its end, and
// that of its authority, count at once: here it is only taken.
int TakeCertificate(X509_STORE_CTX* chain, void*) {
  if (NameBytes(X509_STORE_CTX_get0_cert(chain)) <= kMostNameBytes) return 1;
  X509_STORE_CTX_set_error(chain, X509_V_ERR_CERT_REJECTED);
  return 0;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Context>> Context::Create(
    const Pem& pem, const Files& files) {
  auto made = std::shared_ptr<Context>(new Context);
  made->context_.reset(SSL_CTX_new(TLS_server_method()));
  SSL_CTX* const context = made->context_.get();
  CHECK(context != nullptr);
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET |
                                   SSL_OP_NO_COMPRESSION |
                                   SSL_OP_IGNORE_UNEXPECTED_EOF |
                                   SSL_OP_CIPHER_SERVER_PREFERENCE);
  // Of TLS 1.2, what has forward secrecy and is authenticated encryption; as
  // HTTP/2 wants it.
  CHECK(SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, kReadBufferBytes);
  SSL_CTX_set_alpn_select_cb(context, SelectHttp2, nullptr);
  RETURN_IF_ERROR(Of("--tls-certificate-file", files.certificate,
                     UseCertificates(context, pem.certificates)));
  const X509* const own = SSL_CTX_get0_certificate(context);
  ASSIGN_OR_RETURN(made->begin_, TimeOf(X509_get0_notBefore(own)));
  ASSIGN_OR_RETURN(made->end_, TimeOf(X509_get0_notAfter(own)));
  RETURN_IF_ERROR(Of("--tls-key-file", files.key, UseKey(context, pem.key)));
  if (!pem.client_authorities.empty()) {
    auto store = StoreOf(pem.client_authorities);
    RETURN_IF_ERROR(
        Of("--tls-client-ca-file", files.client_ca, store.status()));
    made->store_ = *std::move(store);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_max_cert_list(context, kMostCertificateBytes);
    SSL_CTX_set_cert_verify_callback(context, TakeCertificate, nullptr);
  }
  return made;
}

absl::Status Context::CheckTime(absl::Time now) const {
  if (begin_ <= now && now <= end_) return absl::OkStatus();
  const auto text = [](absl::Time time) {
    return absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone());
  };
  return absl::FailedPreconditionError(
      absl::StrCat("the daemon's certificate is valid from ", text(begin_),
                   " to ", text(end_), "; clients refuse it now"));
}

}  // namespace gemmd::tls
