// Who calls, once that is known, and what he may do. Immutable.
#ifndef GEMMD_SERVICE_IDENTITY_PRINCIPAL_H_
#define GEMMD_SERVICE_IDENTITY_PRINCIPAL_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gemmd::identity {

// What a method asks of who calls it.
enum class Access {
  kOpen,          // Nothing: anybody.
  kAnyPrincipal,  // To be known, whatever his roles.
  kCompute,       // The role of that name; these are bits of Principal::roles.
  kTensors,
  kKernels,
  kAdmin,
};

// "compute" of kCompute; only of roles.
const char* RoleName(Access role);

// How a caller has proved who he is.
enum class Proof {
  kNone,  // Not at all: he was not asked, or what he showed did not do.
  kUnixUser,
  kCertificate,
  kToken,
  kCount,
};
// As metrics call it: "unix_user".
absl::string_view NameOf(Proof proof);

struct Principal {
  std::string name;
  uint32_t roles = 0;  // Bits 1 << Access.
  int weight = 1;
  int64_t max_tensor_bytes = 0;  // As proto/gemmd/v1/policy.proto says.
  int64_t max_tensors = 0;
  int64_t max_calls = 0;
  int64_t max_in_flight_bytes = 0;

  bool Has(Access role) const {
    return (roles >> static_cast<int>(role) & 1) != 0;
  }
  // PERMISSION_DENIED says which role is missing, and which there are.
  absl::Status Check(Access needed) const;
};

}  // namespace gemmd::identity

#endif  // GEMMD_SERVICE_IDENTITY_PRINCIPAL_H_
