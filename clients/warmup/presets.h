// Problems of common language models.
#ifndef GEMMD_CLIENTS_WARMUP_PRESETS_H_
#define GEMMD_CLIENTS_WARMUP_PRESETS_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "jit/plan/planner.h"
#include "jit/problem/problem.h"

namespace gemmd::warmup {

// Tokens that a request of a preset may have at a time.
inline constexpr int64_t kMaxTokens = 8192;

struct Weight {
  int64_t outputs;
  int64_t inputs;
};

// The weights of the model `name`. INVALID_ARGUMENT lists the names.
absl::StatusOr<std::vector<Weight>> Weights(absl::string_view name);

// The projection of `tokens` through `weight` in bf16: D = X W^T with row-major
// activations X; W row-major (outputs x inputs), which is B column-major, or
// W^T row-major.
jit::Problem Projection(const Weight& weight, int64_t tokens, jit::Order b);

// A problem for each kernel that any projection of the model `name` runs with,
// of 1 to kMaxTokens tokens, in both layouts, on any of `devices`.
// INVALID_ARGUMENT lists the names. Takes a second or so; CANCELLED once `stop`
// is set.
absl::StatusOr<std::vector<jit::Problem>> Preset(
    absl::string_view name, const std::vector<jit::DeviceProperties>& devices,
    const std::atomic<bool>* stop = nullptr);

// "llama-3-8b, ...".
std::string PresetNames();

}  // namespace gemmd::warmup

#endif  // GEMMD_CLIENTS_WARMUP_PRESETS_H_
