#include "absl/strings/str_cat.h"
#include "jit/plan/plan.h"

namespace gemmd::jit {

std::string KernelName(const Family& family, const Config& config) {
  const auto major = [](Major m) { return m == Major::kK ? "k" : "m"; };
  std::string name = absl::StrCat(
      "gemm_", Name(family.input), "_", Name(family.output), "_",
      major(family.x_major), major(family.y_major), "_", config.tile_m, "x",
      config.tile_n, "x", config.tile_k, "_s", config.stages,
      config.schedule == Schedule::kPingPong ? "_pp" : "_co", config.consumers,
      family.store == Store::kTransposed ? "_t" : "_n");
  if (family.reads_c) absl::StrAppend(&name, "_c");
  if (config.split_k) absl::StrAppend(&name, "_split");
  return name;
}

}  // namespace gemmd::jit
