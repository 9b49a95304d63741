#include "absl/strings/str_cat.h"
#include "jit/plan/plan.h"

namespace gemmd::jit {

std::string KernelName(const Family& family, const Config& config) {
  const auto major = [](Major m) { return m == Major::kK ? "k" : "m"; };
  const auto schedule = [](Schedule s) {
    if (s == Schedule::kInterleaved) return "_in";
    return s == Schedule::kPingPong ? "_pp" : "_co";
  };
  const TileEpilogue& epilogue = family.epilogue;
  std::string name = absl::StrCat("gemm_", Name(family.instruction));
  if (family.widening) {
    const auto& [from, stage_groups, zero_points] = *family.widening;
    absl::StrAppend(&name, "-", Name(from));
    if (stage_groups != 0) absl::StrAppend(&name, "g", stage_groups);
    if (zero_points) absl::StrAppend(&name, "z");
  }
  absl::StrAppend(&name, "_", Name(epilogue.output));
  if (family.sum == Summation::kPromoted) absl::StrAppend(&name, "_promoted");
  if (family.sum == Summation::kBlockScaled) absl::StrAppend(&name, "_block");
  absl::StrAppend(&name, "_", major(family.x_major), major(family.y_major), "_",
                  config.tile_m, "x", config.tile_n, "_s", config.stages,
                  schedule(config.schedule), config.consumers,
                  config.groups_in_flight == 0 ? "w" : "",
                  epilogue.store == Store::kTransposed ? "_t" : "_n");
  if (epilogue.exclusive_or) absl::StrAppend(&name, "_xor");
  if (epilogue.alpha) absl::StrAppend(&name, "_a");
  if (epilogue.reads_c) absl::StrAppend(&name, "_c");
  if (epilogue.reads_c && epilogue.c != epilogue.output) {
    absl::StrAppend(&name, Name(epilogue.c));
  }
  const auto scale = [&name](Extent extent, absl::string_view side) {
    if (extent == Extent::kNone) return;
    absl::StrAppend(&name, extent == Extent::kTensor ? "_t" : "_s", side);
  };
  scale(epilogue.row_scale, "r");
  scale(epilogue.column_scale, "c");
  if (epilogue.bias != Side::kNone) {
    absl::StrAppend(&name, epilogue.bias == Side::kRows ? "_br" : "_bc");
  }
  if (epilogue.activation != Activation::kNone) {
    absl::StrAppend(&name, "_", Name(epilogue.activation));
  }
  if (epilogue.auxiliary) absl::StrAppend(&name, "_aux");
  if (epilogue.amax) absl::StrAppend(&name, "_amax");
  if (epilogue.scales_output) absl::StrAppend(&name, "_so");
  if (config.split_k) absl::StrAppend(&name, "_split");
  if (config.cluster > 1) absl::StrAppend(&name, "_cl", config.cluster);
  if (config.multicast > 1) absl::StrAppend(&name, "_mc", config.multicast);
  if (config.grouped) absl::StrAppend(&name, "_grouped");
  if (config.balanced) absl::StrAppend(&name, "_balanced");
  return name;
}

}  // namespace gemmd::jit
