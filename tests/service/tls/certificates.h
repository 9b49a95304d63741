// Certificates made for a test, with the times and authorities that it wants.
#ifndef GEMMD_TESTS_SERVICE_TLS_CERTIFICATES_H_
#define GEMMD_TESTS_SERVICE_TLS_CERTIFICATES_H_

#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "service/tls/handles.h"

namespace gemmd::testing {

class Certificate {
 public:
  struct Options {
    std::string name;          // Common name.
    std::string alternatives;  // "DNS:localhost,IP:127.0.0.1"; may be empty.
    absl::Time from = absl::Now() - absl::Hours(1);
    absl::Time until = absl::Now() + absl::Hours(1);
    const Certificate* authority = nullptr;  // Null: it vouches for itself.
    bool is_authority = false;
    bool has_times = true;     // Else what stands there is no time.
    bool for_servers = false;  // And for nothing else.
  };

  // With a key of its own, on P-256.
  explicit Certificate(const Options& options);

  std::string Pem() const;
  std::string KeyPem() const;

 private:
  tls::UniqueKey key_;
  tls::UniqueX509 certificate_;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_SERVICE_TLS_CERTIFICATES_H_
