// The files of a command that writes several.
#ifndef GEMMD_CLIENTS_GEMMCTL_OUTPUTS_H_
#define GEMMD_CLIENTS_GEMMCTL_OUTPUTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "clients/gemmctl/npy.h"

namespace gemmd::gemmctl {

// INVALID_ARGUMENT where two of `names` are one file, however they spell it, or
// one tensor. "" is nothing that is asked for.
absl::Status CheckOutputs(absl::Span<const std::string> names);

// Regular files appear together, once all that is written has been; where one
// cannot be, there are none. Thread-compatible.
class Outputs {
 public:
  // As WriteNpy, but a file is not at `path` before Keep.
  absl::Status Write(const std::string& path, const Matrix& matrix);
  absl::Status Keep();

 private:
  std::vector<cli::NewFile> files_;
};

}  // namespace gemmd::gemmctl

#endif  // GEMMD_CLIENTS_GEMMCTL_OUTPUTS_H_
