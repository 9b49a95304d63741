// Matrices, and batches of them, in .npy files (numpy.lib.format, versions 1 to
// 3): the last two dimensions are a matrix, any before them a batch.
//
// Types: <f4, <f2, <i4, |i1, |u1, |b1 (bits), bfloat16, which numpy stores as
// two bytes without a name, V2, and e5m2, <f1 from ml_dtypes. What numpy stores
// without a name, or a caller as integers, takes the type that the caller
// names: V1 and |u1 e4m3 or e5m2, <u2 and <i2 bf16, and |i1 s4 and |u1 u4, an
// element in each byte. C order, of matrices Fortran order too.
#ifndef GEMMD_CLIENTS_GEMMCTL_NPY_H_
#define GEMMD_CLIENTS_GEMMCTL_NPY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clients/cli/new_file.h"
#include "gemmd/v1/types.pb.h"

namespace gemmd::gemmctl {

struct Matrix {
  v1::DataType type = v1::DATA_TYPE_UNSPECIFIED;
  v1::Order order = v1::ORDER_ROW_MAJOR;
  int64_t rows = 0;
  int64_t columns = 0;
  std::string bytes;           // Tight; less than 8 bits take a byte each.
  std::vector<int64_t> batch;  // Dimensions before rows and columns.
  // Rows and columns count zeros, too, and bytes are the lines of a sparse
  // matrix (sparse.h).
  bool sparse = false;
  std::optional<v1::Quantization> quantization;  // Of a tensor; no file has it.

  int64_t count() const;      // Matrices of the batch; 1 without one.
  std::string shape() const;  // "2 x 3 x 5".
};

int BitsOf(v1::DataType type);
// Of one element in a file, where those of less than 8 bits take a byte each.
int64_t ElementBytes(v1::DataType type);

// What is at `path`, a file or a pipe, or standard input for "-"; of a pipe no
// more than a header says. `named` is the type that the caller names, or
// UNSPECIFIED. A file has so many dimensions at least; one of one dimension is
// a row. INVALID_ARGUMENT names the file and what is wrong with it; NOT_FOUND
// or another code of the system when it cannot be read.
absl::StatusOr<Matrix> ReadNpy(const std::string& path,
                               v1::DataType named = v1::DATA_TYPE_UNSPECIFIED,
                               size_t dimensions = 2);

// Values of an epilogue: likewise, but F32 alone. A file of one dimension holds
// one row, a file of none one value.
absl::StatusOr<Matrix> ReadNpyValues(const std::string& path);

// Writes version 1, a batch in row-major order; an existing file is replaced
// once all is written (new_file.h), and "-" is standard output, which must be
// no terminal.
absl::Status WriteNpy(const std::string& path, const Matrix& matrix);
// Likewise, but a file is not at `path` before it is kept.
absl::StatusOr<cli::NewFile> StartNpy(const std::string& path,
                                      const Matrix& matrix);

}  // namespace gemmd::gemmctl

#endif  // GEMMD_CLIENTS_GEMMCTL_NPY_H_
