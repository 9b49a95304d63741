// The certificate that a client has shown, whose key it has proved to have.
// Whether it is to be trusted is asked again and again: it ends some day, and
// authorities go. Thread-safe.
#ifndef GEMMD_SERVICE_TLS_PEER_CERTIFICATE_H_
#define GEMMD_SERVICE_TLS_PEER_CERTIFICATE_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "service/tls/context.h"
#include "service/tls/handles.h"

namespace gemmd::tls {

class PeerCertificate {
 public:
  // Null when the client has shown none.
  static std::unique_ptr<PeerCertificate> Of(SSL* ssl);

  // "CN:worker", "DNS:worker.example", "URI:spiffe://example/worker",
  // "email:...". Names with a zero byte are left out.
  const std::vector<std::string>& names() const { return names_; }

  // UNAUTHENTICATED, with the reason, unless an authority of `context` vouches
  // for it now. What was found out a second ago counts.
  absl::Status Check(const std::shared_ptr<const Context>& context,
                     absl::Time now);

 private:
  PeerCertificate(UniqueX509 certificate, UniqueChain chain);

  absl::Status Verify(const Context& context, absl::Time now) const;

  const UniqueX509 certificate_;
  const UniqueChain chain_;  // What came with it; may be null.
  std::vector<std::string> names_;

  std::mutex mutex_;
  std::shared_ptr<const Context> checked_by_ ABSL_GUARDED_BY(mutex_);
  absl::Time checked_at_ ABSL_GUARDED_BY(mutex_);
  absl::Status verdict_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::tls

#endif  // GEMMD_SERVICE_TLS_PEER_CERTIFICATE_H_
