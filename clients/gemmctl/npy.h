// Matrices in .npy files (numpy.lib.format, versions 1 to 3).
//
// Types: <f4, <f2, and bfloat16, which numpy stores as two bytes without a
// name, V2. Files of <u2 hold its bits only where the caller says so. C and
// Fortran order.
#ifndef GEMMD_CLIENTS_GEMMCTL_NPY_H_
#define GEMMD_CLIENTS_GEMMCTL_NPY_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gemmd/v1/types.pb.h"

namespace gemmd::gemmctl {

struct Matrix {
  v1::DataType type = v1::DATA_TYPE_UNSPECIFIED;  // F32, F16 or BF16.
  v1::Order order = v1::ORDER_ROW_MAJOR;
  int64_t rows = 0;
  int64_t columns = 0;
  std::string bytes;  // Tight.
};

// Bytes of one element.
int64_t ElementBytes(v1::DataType type);

// The file at `path`, or standard input for "-". With `u2_is_bf16`, elements of
// <u2 are the bits of bfloat16. INVALID_ARGUMENT names the file and what is
// wrong with it; NOT_FOUND or another code of the system when it cannot be
// read.
absl::StatusOr<Matrix> ReadNpy(const std::string& path,
                               bool u2_is_bf16 = false);

// Writes version 1; an existing file is replaced, and "-" is standard output,
// which must be no terminal.
absl::Status WriteNpy(const std::string& path, const Matrix& matrix);

}  // namespace gemmd::gemmctl

#endif  // GEMMD_CLIENTS_GEMMCTL_NPY_H_
