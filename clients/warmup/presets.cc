#include "clients/warmup/presets.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "jit/base/status.h"

namespace gemmd::warmup {
namespace {

struct Model {
  const char* name;
  std::vector<Weight> weights;
};

// From the models' published configurations. In order: fused q, k and v;
// attention output; fused gate and up; down; vocabulary.
const std::vector<Model>& Models() {
  static const auto* const models = new std::vector<Model>{
      {"llama-3-8b",
       {{6144, 4096},
        {4096, 4096},
        {28672, 4096},
        {4096, 14336},
        {128256, 4096}}},
      {"llama-3-70b",
       {{10240, 8192},
        {8192, 8192},
        {57344, 8192},
        {8192, 28672},
        {128256, 8192}}},
      {"qwen-2.5-7b",
       {{4608, 3584},
        {3584, 3584},
        {37888, 3584},
        {3584, 18944},
        {152064, 3584}}},
      // Latent attention: down- and up-projections of q and kv, output; then
      // the dense and the shared experts' gate and up, and down.
      {"deepseek-v3",
       {{2112, 7168},
        {24576, 1536},
        {32768, 512},
        {7168, 16384},
        {36864, 7168},
        {7168, 18432},
        {4096, 7168},
        {7168, 2048},
        {129280, 7168}}},
  };
  return *models;
}

}  // namespace

absl::StatusOr<std::vector<Weight>> Weights(absl::string_view name) {
  for (const Model& model : Models()) {
    if (model.name == name) return model.weights;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--preset is ", name, "; allowed: ", PresetNames()));
}

jit::Problem Projection(const Weight& weight, int64_t tokens, jit::Order b) {
  jit::Problem problem;
  problem.m = tokens;
  problem.n = weight.outputs;
  problem.k = weight.inputs;
  problem.b_order = b;
  return problem;
}

absl::StatusOr<std::vector<jit::Problem>> Preset(
    absl::string_view name, const std::vector<jit::DeviceProperties>& devices,
    const std::atomic<bool>* stop) {
  ASSIGN_OR_RETURN(const std::vector<Weight> weights, Weights(name));
  // One problem may run with different kernels on different devices.
  std::set<std::pair<int, std::string>> kernels;
  std::vector<jit::Problem> problems;
  // Every one is planned, since the planner promises nothing between two sizes:
  // 24 us each.
  for (const Weight& weight : weights) {
    for (const jit::Order b :
         {jit::Order::kColumnMajor, jit::Order::kRowMajor}) {
      for (int64_t tokens = 1; tokens <= kMaxTokens; ++tokens) {
        if (stop != nullptr && *stop) return absl::CancelledError("stopped");
        const jit::Problem problem = Projection(weight, tokens, b);
        bool is_new = false;
        for (const jit::DeviceProperties& device : devices) {
          const jit::Plan plan = jit::ChoosePlan(problem, device);
          is_new |= kernels
                        .emplace(device.multiprocessors,
                                 jit::KernelName(plan.family, plan.config))
                        .second;
        }
        if (is_new) problems.push_back(problem);
      }
    }
  }
  return problems;
}

std::string PresetNames() {
  return absl::StrJoin(Models(), ", ", [](std::string* out, const Model& m) {
    absl::StrAppend(out, m.name);
  });
}

}  // namespace gemmd::warmup
