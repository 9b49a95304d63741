// Element types and orders of matrices held here. Pure functions.
#ifndef GEMMD_CLIENTS_GEMMCTL_CONVERT_H_
#define GEMMD_CLIENTS_GEMMCTL_CONVERT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "clients/gemmctl/npy.h"

namespace gemmd::gemmctl {

// "bf16", "f16" or "f32"; the message of an error is what is allowed.
absl::StatusOr<v1::DataType> ParseDataType(const std::string& name);
// "row" or "column"; likewise.
absl::StatusOr<v1::Order> ParseOrder(const std::string& name);
std::string Name(v1::DataType type);
std::string Name(v1::Order order);

// f32 rounded to nearest, ties to even. NaN stays NaN.
uint16_t ToBf16(float value);
uint16_t ToF16(float value);

// F32 becomes `type`, rounded; a matrix that has it already is returned as it
// is. INVALID_ARGUMENT for other conversions.
absl::StatusOr<Matrix> Convert(Matrix matrix, v1::DataType type);

// The same matrix with its lines in `order`.
Matrix Reorder(Matrix matrix, v1::Order order);

}  // namespace gemmd::gemmctl

#endif  // GEMMD_CLIENTS_GEMMCTL_CONVERT_H_
