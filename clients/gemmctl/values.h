// Values of an epilogue on the command line: a number, or a .npy file of f4
// whose shape says what they belong to.
#ifndef GEMMD_CLIENTS_GEMMCTL_VALUES_H_
#define GEMMD_CLIENTS_GEMMCTL_VALUES_H_

#include <string>

#include "absl/status/statusor.h"
#include "clients/gemmctl/npy.h"
#include "jit/problem/problem.h"

namespace gemmd::gemmctl {

// As the user named them; empty names stand for what is not asked for.
struct ValueNames {
  std::string bias;     // Columns: (n,) or (1, n). Rows: (m, 1).
  std::string a_scale;  // A number, (m,), or (m, k/128) by blocks.
  std::string b_scale;  // A number, (n,), or (k/128, n/128) by blocks.
  std::string d_scale;  // A number.
};

// F32, row-major; without bytes where nothing is asked for.
struct Values {
  Matrix bias;
  Matrix a_scale;
  Matrix b_scale;
  Matrix d_scale;
};

// Reads them, and says in `problem`, whose dimensions and batch are set, what
// they belong to. INVALID_ARGUMENT names the option, the shape that it has and
// those that are allowed.
absl::StatusOr<Values> ReadValues(const ValueNames& names,
                                  jit::Problem& problem);

}  // namespace gemmd::gemmctl

#endif  // GEMMD_CLIENTS_GEMMCTL_VALUES_H_
