// Problems of common language models.
#ifndef GEMMD_CLIENTS_WARMUP_PRESETS_H_
#define GEMMD_CLIENTS_WARMUP_PRESETS_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clients/warmup/experts.h"
#include "clients/warmup/weight.h"
#include "jit/plan/planner.h"
#include "jit/problem/group_line.h"

namespace gemmd::warmup {

// Tokens that a request of a preset may have at a time: unless said otherwise,
// and the most that may be said.
inline constexpr int64_t kPresetTokens = 8192;
inline constexpr int64_t kMaxPresetTokens = 65536;

struct Model {
  std::string name;
  std::vector<Weight> weights;  // Through which every token goes.
  Experts experts;
};

// The model `name`. INVALID_ARGUMENT lists the names.
absl::StatusOr<Model> FindModel(absl::string_view name);

struct PresetOptions {
  std::vector<jit::DeviceProperties> devices;
  int64_t tokens = kPresetTokens;  // Most of a request, to kMaxPresetTokens.
  int64_t threads = 1;  // That plan; one takes a minute for kPresetTokens.
  const std::atomic<bool>* stop = nullptr;  // Null: nothing stops it.
};

// A problem for each kernel that any projection of the model `name` runs with,
// of one token to all that a request may have, in both layouts, on any of the
// devices. Where it has experts, groups too: how tokens are spread over experts
// cannot be told ahead, so these have the kernels of several spreads of many
// numbers of tokens, one of which is near that of any other. INVALID_ARGUMENT
// lists the names; CANCELLED once `stop` is set.
absl::StatusOr<jit::ProblemList> Preset(absl::string_view name,
                                        const PresetOptions& options);

// "llama-3-8b, ...".
std::string PresetNames();

}  // namespace gemmd::warmup

#endif  // GEMMD_CLIENTS_WARMUP_PRESETS_H_
