// Finds the principal of a call from what its connection and its metadata
// prove. The files are looked at again by Reload. Thread-safe.
//
// A token counts before a certificate, and that before the user of a Unix
// socket: who shows several means the one that he shows most expressly. What is
// shown and wrong is an error, whatever else would do.
#ifndef GEMMD_SERVICE_IDENTITY_GATE_H_
#define GEMMD_SERVICE_IDENTITY_GATE_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "jit/base/last_loaded.h"
#include "service/identity/policy.h"
#include "service/identity/token_table.h"

namespace gemmd::identity {

struct Files {
  std::string policy;
  std::string token_digests;  // May be empty: no tokens.
};

struct Credentials {
  // The values of the metadata "authorization".
  absl::Span<const absl::string_view> authorization;
  // Of a client certificate that is to be trusted; empty: there is none.
  absl::Span<const std::string> certificate_names;
  std::optional<uid_t> user;  // At the other end of a Unix socket.
};

struct Caller {
  PrincipalPointer principal;
  Proof proof;  // What counted.
};

class Gate {
 public:
  // Errors name the files.
  static absl::StatusOr<std::unique_ptr<Gate>> Open(
      Files files, UserFinder find_user = FindUser);

  // Reads the files again. True when they have changed and count from now on.
  // An error, once, when what they hold now is wrong, or names a user who
  // cannot be found now: what was before goes on, until a later call succeeds.
  absl::StatusOr<bool> Reload();

  // UNAUTHENTICATED says what is missing or wrong.
  absl::StatusOr<Caller> Identify(const Credentials& credentials,
                                  absl::Time now) const;

  std::shared_ptr<const Policy> policy() const;

 private:
  struct Content {
    std::string policy;
    std::string token_digests;
    friend bool operator==(const Content&, const Content&) = default;
  };
  struct Known {
    Policy policy;
    TokenTable tokens;
  };

  Gate(Files files, UserFinder find_user)
      : files_(std::move(files)), find_user_(std::move(find_user)) {}

  absl::StatusOr<Content> Read() const;
  absl::Status Load(const Content& content);
  std::shared_ptr<const Known> known() const;

  const Files files_;
  const UserFinder find_user_;
  jit::LastLoaded<Content> loaded_;  // Of the thread that reloads.
  mutable std::mutex mutex_;
  std::shared_ptr<const Known> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::identity

#endif  // GEMMD_SERVICE_IDENTITY_GATE_H_
