// Element types and orders of matrices held here. Pure functions.
#ifndef GEMMD_CLIENTS_GEMMCTL_CONVERT_H_
#define GEMMD_CLIENTS_GEMMCTL_CONVERT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "clients/gemmctl/npy.h"

namespace gemmd::gemmctl {

// "bf16", "e4m3", ...; the message of an error is what is allowed.
absl::StatusOr<v1::DataType> ParseDataType(const std::string& name);
// "row" or "column"; likewise.
absl::StatusOr<v1::Order> ParseOrder(const std::string& name);
std::string Name(v1::DataType type);
std::string Name(v1::Order order);

// f32 rounded to nearest, ties to even. NaN stays NaN.
uint16_t ToBf16(float value);
uint16_t ToF16(float value);
float FromF16(uint16_t bits);

// F32 becomes `type`, rounded. What is finite and beyond BF16 or F16 becomes
// infinity, beyond E4M3 or E5M2 the greatest value. Infinity stays infinity,
// and becomes NaN in E4M3, which has none. A matrix that has the type already
// is returned as it is. INVALID_ARGUMENT for other conversions.
absl::StatusOr<Matrix> Convert(Matrix matrix, v1::DataType type);
// What --help says of it.
inline constexpr char kConverts[] =
    "Converts an f4 file to bf16, f16, e4m3 or e5m2: finite elements beyond "
    "the last two become their greatest value, infinity becomes NaN in e4m3.";

// F16, BF16 or F32 as F32. INVALID_ARGUMENT for other types.
absl::StatusOr<Matrix> Widen(Matrix matrix);

// The same matrices with their lines in `order`.
Matrix Reorder(Matrix matrix, v1::Order order);

// Bytes as the API has them: bits are packed, eight to a byte,
// and elements of four bits, two to a byte.
std::string Pack(Matrix matrix);
// The reverse, of what a matrix without bytes describes.
Matrix Unpack(Matrix shape, std::string packed);
// Bytes that Pack gives.
int64_t PackedBytes(const Matrix& matrix);

}  // namespace gemmd::gemmctl

#endif  // GEMMD_CLIENTS_GEMMCTL_CONVERT_H_
