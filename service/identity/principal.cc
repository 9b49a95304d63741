#include "service/identity/principal.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gemmd::identity {

const char* RoleName(Access role) {
  switch (role) {
    case Access::kCompute:
      return "compute";
    case Access::kTensors:
      return "tensors";
    case Access::kKernels:
      return "kernels";
    case Access::kAdmin:
      return "admin";
    case Access::kOpen:
    case Access::kAnyPrincipal:
      break;
  }
  return "";
}

absl::string_view NameOf(Proof proof) {
  switch (proof) {
    case Proof::kNone:
      return "none";
    case Proof::kUnixUser:
      return "unix_user";
    case Proof::kCertificate:
      return "certificate";
    case Proof::kToken:
      return "token";
    case Proof::kCount:
      break;
  }
  return "";
}

absl::Status Principal::Check(Access needed) const {
  if (needed == Access::kOpen || needed == Access::kAnyPrincipal ||
      Has(needed)) {
    return absl::OkStatus();
  }
  std::vector<std::string> own;
  for (const Access role :
       {Access::kCompute, Access::kTensors, Access::kKernels, Access::kAdmin}) {
    if (Has(role)) own.push_back(RoleName(role));
  }
  return absl::PermissionDeniedError(absl::StrCat(
      "the method needs the role ", RoleName(needed), "; this principal has: ",
      own.empty() ? "none" : absl::StrJoin(own, ", ")));
}

}  // namespace gemmd::identity
