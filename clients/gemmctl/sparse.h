// Sparse matrices (gemmd/v1/types.proto, Sparsity) and their files: .npy of u1,
// (..., lines, bytes of a line), which is SparseMatrix.lines of the Python
// client. Pure functions.
#ifndef GEMMD_CLIENTS_GEMMCTL_SPARSE_H_
#define GEMMD_CLIENTS_GEMMCTL_SPARSE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "clients/gemmctl/npy.h"

namespace gemmd::gemmctl {

// INVALID_ARGUMENT for types of which no matrix is sparse.
absl::Status CheckSparseType(v1::DataType type);

// What a matrix keeps where a chunk has more values than places.
enum class Excess { kRefused, kPruned };

// Stores two of every four elements of each line of `order`, rows for an A and
// columns for a B. INVALID_ARGUMENT names the first chunk that has more, unless
// those of less magnitude are pruned.
absl::StatusOr<Matrix> Compress(Matrix dense, v1::Order order, Excess excess);
// With its zeros. INVALID_ARGUMENT for metadata that are not legal.
absl::StatusOr<Matrix> Decompress(const Matrix& sparse);

// A file's matrix of u1 as the sparse one whose lines it holds.
absl::StatusOr<Matrix> FromLines(Matrix file, v1::DataType type,
                                 v1::Order order);
// The file at `path` as that; errors name it, as ReadNpy's do.
absl::StatusOr<Matrix> ReadLines(const std::string& path, v1::DataType type,
                                 v1::Order order);
// The reverse.
Matrix ToLines(Matrix sparse);

// Bytes of all lines.
int64_t SparseBytes(const Matrix& sparse);

}  // namespace gemmd::gemmctl

#endif  // GEMMD_CLIENTS_GEMMCTL_SPARSE_H_
