// Weights of other programs, four or eight bits each in int32, as parts of a
// quantized matrix, k x n: what from_gptq and from_awq of the Python client do,
// whose docstrings say which bits are what. Pure functions.
#ifndef GEMMD_CLIENTS_GEMMCTL_PACKINGS_H_
#define GEMMD_CLIENTS_GEMMCTL_PACKINGS_H_

#include <optional>

#include "absl/status/statusor.h"
#include "clients/gemmctl/quantized.h"

namespace gemmd::gemmctl {

// As they are stored. INVALID_ARGUMENT names the one that is wrong.
struct PackedWeights {
  Matrix weights;  // S32.
  Matrix scales;   // F32, F16 or BF16: groups x n.
  Matrix zeros;    // S32.
};

struct GptqOptions {
  int bits = 4;                 // Or 8.
  bool zeros_plus_one = true;   // "gptq"; false is "gptq_v2".
  std::optional<Matrix> g_idx;  // S32, 1 x k.
};
absl::StatusOr<Parts> FromGptq(PackedWeights packed,
                               const GptqOptions& options);
absl::StatusOr<Parts> FromAwq(PackedWeights packed);

}  // namespace gemmd::gemmctl

#endif  // GEMMD_CLIENTS_GEMMCTL_PACKINGS_H_
