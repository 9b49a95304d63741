#include "absl/strings/str_cat.h"
#include "jit/plan/plan.h"

namespace gemmd::jit {

std::string KernelName(const Family& family, const Config& config) {
  const auto major = [](Major m) { return m == Major::kK ? "k" : "m"; };
  const TileEpilogue& epilogue = family.epilogue;
  std::string name = absl::StrCat("gemm_", Name(family.instruction), "_",
                                  Name(epilogue.output));
  if (family.sum == Summation::kPromoted) absl::StrAppend(&name, "_promoted");
  absl::StrAppend(&name, "_", major(family.x_major), major(family.y_major), "_",
                  config.tile_m, "x", config.tile_n, "_s", config.stages,
                  config.schedule == Schedule::kPingPong ? "_pp" : "_co",
                  config.consumers, config.groups_in_flight == 0 ? "w" : "",
                  epilogue.store == Store::kTransposed ? "_t" : "_n");
  if (epilogue.alpha) absl::StrAppend(&name, "_a");
  if (epilogue.reads_c) absl::StrAppend(&name, "_c");
  if (epilogue.reads_c && epilogue.c != epilogue.output) {
    absl::StrAppend(&name, Name(epilogue.c));
  }
  if (config.split_k) absl::StrAppend(&name, "_split");
  return name;
}

}  // namespace gemmd::jit
