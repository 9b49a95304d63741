// Errors of files and folders that options name, as operators read them:
// clients are told no paths.
#ifndef GEMMD_JIT_BASE_OF_OPTION_H_
#define GEMMD_JIT_BASE_OF_OPTION_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace gemmd::jit {

// INVALID_ARGUMENT: "--policy-file: /etc/policy: cannot open a file: Permission
// denied".
inline absl::Status OfOption(absl::string_view option, absl::string_view path,
                             absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(option, ": ", path, ": ", why));
}

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_BASE_OF_OPTION_H_
