// The dict at the start of a .npy file: a literal of Python with three keys, as
// numpy.lib.format reads and writes it. Pure functions.
#ifndef GEMMD_CLIENTS_GEMMCTL_NPY_HEADER_H_
#define GEMMD_CLIENTS_GEMMCTL_NPY_HEADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd::gemmctl {

struct NpyHeader {
  std::string type;  // "<f4".
  bool is_fortran = false;
  std::vector<int64_t> shape;
};

// INVALID_ARGUMENT says what is wrong: also a key that is missing, that numpy
// does not know, or that comes twice.
absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view text);

}  // namespace gemmd::gemmctl

#endif  // GEMMD_CLIENTS_GEMMCTL_NPY_HEADER_H_
