// The GPUs that the host device may stand for. Pure function.
#ifndef GEMMD_SERVICE_HOST_MODEL_H_
#define GEMMD_SERVICE_HOST_MODEL_H_

#include "absl/strings/string_view.h"
#include "jit/plan/planner.h"

namespace gemmd::host {

// What plans depend on. Both are the SXM module, which differ in memory alone;
// plans are the same.
struct Model {
  absl::string_view name;
  jit::DeviceProperties properties;
};
inline constexpr Model kModels[] = {
    {"h100", {.multiprocessors = 132, .shared_memory_bytes = 232448}},
    {"h200", {.multiprocessors = 132, .shared_memory_bytes = 232448}},
};

// `name` is one of kModels.
constexpr jit::DeviceProperties PropertiesOf(absl::string_view name) {
  for (const Model& model : kModels) {
    if (model.name == name) return model.properties;
  }
  return {};
}

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_MODEL_H_
