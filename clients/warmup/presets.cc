#include "clients/warmup/presets.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gemmd::warmup {
namespace {

struct Weight {
  int64_t outputs;
  int64_t inputs;
};

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

constexpr int64_t kTokens[] = {1,   2,   4,   8,    16,   32,   64,
                               128, 256, 512, 1024, 2048, 4096, 8192};

}  // namespace

absl::StatusOr<std::vector<jit::Problem>> Preset(absl::string_view name) {
  for (const Model& model : Models()) {
    if (model.name != name) continue;
    std::vector<jit::Problem> problems;
    for (const Weight& weight : model.weights) {
      for (int64_t tokens : kTokens) {
        jit::Problem problem;
        problem.m = tokens;
        problem.n = weight.outputs;
        problem.k = weight.inputs;
        problem.b_order = jit::Order::kColumnMajor;
        problems.push_back(problem);
      }
    }
    return problems;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--preset is '", name, "'; allowed: ", PresetNames()));
}

std::string PresetNames() {
  return absl::StrJoin(Models(), ", ", [](std::string* out, const Model& m) {
    absl::StrAppend(out, m.name);
  });
}

}  // namespace gemmd::warmup
