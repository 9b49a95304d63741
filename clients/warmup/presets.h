// Problems of common language models.
#ifndef GEMMD_CLIENTS_WARMUP_PRESETS_H_
#define GEMMD_CLIENTS_WARMUP_PRESETS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "jit/problem/problem.h"

namespace gemmd::warmup {

// The projections of the model `name` in bf16 for 1 to 8192 tokens: D = X W^T
// with row-major activations X and weights W. INVALID_ARGUMENT lists the names.
absl::StatusOr<std::vector<jit::Problem>> Preset(absl::string_view name);

// "llama-3-8b, ...".
std::string PresetNames();

}  // namespace gemmd::warmup

#endif  // GEMMD_CLIENTS_WARMUP_PRESETS_H_
