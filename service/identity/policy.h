// The principals of a daemon, by what tells them apart: the content of
// --policy-file. Immutable.
//
// The format is JSON of proto/gemmd/v1/policy.proto: its reader, protobuf's, is
// in the program already and refuses names and types that the schema lacks; a
// second one refuses fields that are named twice. The reader of --config knows
// no value deeper than a list.
#ifndef GEMMD_SERVICE_IDENTITY_POLICY_H_
#define GEMMD_SERVICE_IDENTITY_POLICY_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/identity/principal.h"

namespace gemmd::identity {

using PrincipalPointer = std::shared_ptr<const Principal>;

// The number of a user by his name; none when there is no such user. An error
// when that cannot be told now, as while a directory service is away.
using UserFinder =
    std::function<absl::StatusOr<std::optional<uid_t>>(const std::string&)>;
// Of this machine.
absl::StatusOr<std::optional<uid_t>> FindUser(const std::string& name);

class Policy {
 public:
  // INVALID_ARGUMENT says what is wrong where, or which user was not found.
  static absl::StatusOr<Policy> Parse(absl::string_view json,
                                      const UserFinder& find_user = FindUser);

  // Each null when there is none.
  PrincipalPointer Named(const std::string& name) const;
  PrincipalPointer OfUser(uid_t user) const;
  // The one that any of `names` stands for ("DNS:worker.example"); null also
  // when they stand for several.
  PrincipalPointer OfCertificate(absl::Span<const std::string> names) const;

  const absl::flat_hash_map<std::string, PrincipalPointer>& principals() const {
    return by_name_;
  }

 private:
  absl::flat_hash_map<std::string, PrincipalPointer> by_name_;
  absl::flat_hash_map<uid_t, PrincipalPointer> by_user_;
  absl::flat_hash_map<std::string, PrincipalPointer> by_certificate_;
};

}  // namespace gemmd::identity

#endif  // GEMMD_SERVICE_IDENTITY_POLICY_H_
