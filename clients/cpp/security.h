// What a client trusts and how it proves who it is: files, by the same names in
// every client, as flag (--ca-file), in the environment (GEMMD_CA_FILE) and in
// the file of $GEMMD_CONFIG ("ca-file = PATH"). The first of these counts.
#ifndef GEMMD_CLIENTS_CPP_SECURITY_H_
#define GEMMD_CLIENTS_CPP_SECURITY_H_

#include <grpcpp/security/credentials.h>

#include <memory>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace gemmd::client {

struct Security {
  // Authorities, in PEM, whom the daemon's certificate is trusted by, or
  // "system" for those of the system. Empty, without a certificate_file:
  // plaintext.
  std::string ca_file;
  std::string certificate_file;  // The client's own, in PEM, with key_file.
  std::string key_file;
  // A bearer token. Over plaintext it is sent to this machine alone. Read again
  // every ten seconds.
  std::string token_file;

  bool tls() const { return !ca_file.empty() || !certificate_file.empty(); }
  // What the environment and $GEMMD_CONFIG say. INVALID_ARGUMENT for a file
  // that has other lines than "name = value".
  static absl::StatusOr<Security> Default();
};

struct SecurityOption {
  const char* name;         // "ca-file".
  const char* environment;  // "GEMMD_CA_FILE".
  const char* help;
  std::string Security::*file;
};
absl::Span<const SecurityOption> SecurityOptions();

// Whether `target`, as gRPC takes it, can be reached without a network.
bool IsThisMachine(absl::string_view target);

// INVALID_ARGUMENT for a certificate without a key, and for a token that would
// go over a network in plaintext to `target`.
absl::Status CheckSecurity(const Security& security, const std::string& target);
// INVALID_ARGUMENT names the file that cannot be read, is not what it should
// be, or does not go with the other.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsOf(
    const Security& security);

// The value of the metadata "authorization". Thread-safe.
class Authorization {
 public:
  // INVALID_ARGUMENT unless the file holds a token. Without a file there is no
  // value.
  static absl::StatusOr<std::unique_ptr<Authorization>> Open(
      std::string token_file);

  // That of the file as it was when it could last be read.
  std::string Get();

 private:
  explicit Authorization(std::string token_file)
      : token_file_(std::move(token_file)) {}

  absl::StatusOr<std::string> Read() const;

  const std::string token_file_;
  std::mutex mutex_;
  std::string value_ ABSL_GUARDED_BY(mutex_);
  absl::Time tried_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::client

#endif  // GEMMD_CLIENTS_CPP_SECURITY_H_
