// How the daemon speaks TLS: its certificate and key, and who vouches for
// clients. Immutable; a rotation makes another one. Thread-safe.
//
// TLS 1.2 and up, HTTP/2 and nothing else. No sessions are resumed: who comes
// again proves again who he is, to the authorities of that time.
#ifndef GEMMD_SERVICE_TLS_CONTEXT_H_
#define GEMMD_SERVICE_TLS_CONTEXT_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/tls/handles.h"

namespace gemmd::tls {

struct Files {
  std::string certificate;
  std::string key;
  std::string client_ca;  // May be empty.
};

// Contents of files, in PEM.
struct Pem {
  std::string certificates;  // The daemon's own first, then intermediate ones.
  std::string key;
  std::string client_authorities;  // Empty: clients are asked for nothing.
  friend bool operator==(const Pem&, const Pem&) = default;
};

class Context {
 public:
  // INVALID_ARGUMENT says which of them, by its name in `files`, is wrong, and
  // nothing of its content.
  static absl::StatusOr<std::shared_ptr<const Context>> Create(
      const Pem& pem, const Files& files = {});

  SSL_CTX* get() const { return context_.get(); }
  // Null when clients are asked for no certificate.
  X509_STORE* client_authorities() const { return store_.get(); }
  // FAILED_PRECONDITION when clients refuse the daemon's certificate, as it has
  // not begun or has ended.
  absl::Status CheckTime(absl::Time now) const;

 private:
  Context() = default;

  UniqueSslContext context_;
  UniqueStore store_;
  absl::Time begin_;  // Of the daemon's own certificate.
  absl::Time end_;
};

}  // namespace gemmd::tls

#endif  // GEMMD_SERVICE_TLS_CONTEXT_H_
