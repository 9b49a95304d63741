// Sparse matrices whose metadata are in the order of CUTLASS 2's kernels:
// gemmd/metadata_order.py of the Python client says where which word lies. Pure
// function.
#ifndef GEMMD_CLIENTS_GEMMCTL_METADATA_ORDER_H_
#define GEMMD_CLIENTS_GEMMCTL_METADATA_ORDER_H_

#include "absl/status/statusor.h"
#include "clients/gemmctl/npy.h"

namespace gemmd::gemmctl {

// `values` are (..., lines, k / 2), `words` their metadata, of 32 bits (S32)
// where values have 8, else of 16 (BF16, whatever it was). Lines are of
// `order`: rows of an A, columns of a B. INVALID_ARGUMENT where they do not go
// together, or metadata are not legal.
absl::StatusOr<Matrix> FromCutlass(Matrix values, Matrix words,
                                   v1::Order order);

}  // namespace gemmd::gemmctl

#endif  // GEMMD_CLIENTS_GEMMCTL_METADATA_ORDER_H_
