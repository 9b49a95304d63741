// Quantized matrices (gemmd/v1/types.proto, Quantization) and the files of
// their parts, which are those of the Python client: elements, scales and zero
// points of the shape of the matrix, but with groups where elements have k.
#ifndef GEMMD_CLIENTS_GEMMCTL_QUANTIZED_H_
#define GEMMD_CLIENTS_GEMMCTL_QUANTIZED_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "clients/gemmctl/npy.h"

namespace gemmd::gemmctl {

// An element q stands for scale * (q - zero point).
struct Parts {
  Matrix elements;              // S4, U4, S8 or E4M3.
  Matrix scales;                // F32.
  std::optional<Matrix> zeros;  // S8; of S4 and U4 only.
};

// The matrix as it travels: lines of `order`, rows of an A or columns of a B,
// with bytes as the API has them. How many scales there are says whether groups
// are of 32, 64, 128 or all of k. INVALID_ARGUMENT where parts do not go
// together.
absl::StatusOr<Matrix> Join(Parts parts, v1::Order order);
// The reverse.
Parts Split(Matrix quantized);

struct PartFiles {
  std::string elements;
  std::string scales;
  std::string zeros;  // "": there are none.
};

// INVALID_ARGUMENT where they would be written to one file.
absl::Status CheckOutputs(const PartFiles& files);

// INVALID_ARGUMENT names the file. `type` is that of the elements, where the
// file has integers or bytes.
absl::StatusOr<Parts> ReadParts(const PartFiles& files, v1::DataType type);
// INVALID_ARGUMENT where zero points have no file, or a file none.
absl::Status WriteParts(const PartFiles& files, const Parts& parts);

}  // namespace gemmd::gemmctl

#endif  // GEMMD_CLIENTS_GEMMCTL_QUANTIZED_H_
