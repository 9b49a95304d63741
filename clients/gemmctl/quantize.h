// From real numbers to quantized weights and back. Pure functions.
#ifndef GEMMD_CLIENTS_GEMMCTL_QUANTIZE_H_
#define GEMMD_CLIENTS_GEMMCTL_QUANTIZE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "clients/gemmctl/quantized.h"

namespace gemmd::gemmctl {

// The nearest elements with the scales of the greatest magnitude of each group
// of so many k (0: all), or with zero points where asked for, of the span from
// the least to the greatest. Bit for bit what gemmd.quantize gives in Python.
absl::StatusOr<Parts> Quantize(Matrix matrix, v1::DataType type, int32_t group,
                               bool zero_points, v1::Order order);

// What parts stand for, as F32.
absl::StatusOr<Matrix> Dequantize(Parts parts, v1::Order order);

}  // namespace gemmd::gemmctl

#endif  // GEMMD_CLIENTS_GEMMCTL_QUANTIZE_H_
