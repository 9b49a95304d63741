#include "clients/warmup/presets.h"

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/warmup/group_plans.h"
#include "jit/base/status.h"
#include "jit/plan/tuned_plan.h"

namespace gemmd::warmup {
namespace {

// From the models' published configurations. In order: fused q, k and v;
// attention output; fused gate and up; down; vocabulary. Experts have a gate
// and up, and a down.
const std::vector<Model>& Models() {
  static const auto* const models = new std::vector<Model>{
      {"llama-3-8b",
       {{6144, 4096},
        {4096, 4096},
        {28672, 4096},
        {4096, 14336},
        {128256, 4096}},
       {}},
      {"llama-3-70b",
       {{10240, 8192},
        {8192, 8192},
        {57344, 8192},
        {8192, 28672},
        {128256, 8192}},
       {}},
      {"qwen-2.5-7b",
       {{4608, 3584},
        {3584, 3584},
        {37888, 3584},
        {3584, 18944},
        {152064, 3584}},
       {}},
      {"qwen-3-30b-a3b",
       {{5120, 2048}, {2048, 4096}, {151936, 2048}},
       {128, 8, {{1536, 2048}, {2048, 768}}}},
      {"mixtral-8x7b",
       {{6144, 4096}, {4096, 4096}, {32000, 4096}},
       {8, 2, {{28672, 4096}, {4096, 14336}}}},
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
        {129280, 7168}},
       {256, 8, {{4096, 7168}, {7168, 2048}}}},
  };
  return *models;
}

// Adds what runs with a kernel that nothing before it does, on any device: one
// problem may run with different kernels on different devices.
class Cover {
 public:
  explicit Cover(const std::vector<jit::DeviceProperties>& devices)
      : devices_(devices) {}

  void Add(const jit::Problem& problem) {
    bool is_new = false;
    for (const jit::DeviceProperties& device : devices_) {
      is_new |= IsNew(jit::UntunedPlan(problem, device), device);
    }
    if (is_new) list_.problems.push_back(problem);
  }
  void Add(jit::ProblemGroup group) {
    bool is_new = false;
    for (const jit::DeviceProperties& device : devices_) {
      for (const PlannedProblem& planned : PlanGroup(group, device)) {
        is_new |= IsNew(planned.plan, device);
      }
    }
    if (is_new) list_.groups.push_back(std::move(group));
  }

  jit::ProblemList Take() { return std::move(list_); }

 private:
  bool IsNew(const jit::Plan& plan, const jit::DeviceProperties& device) {
    return kernels_
        .emplace(device.multiprocessors,
                 jit::KernelName(plan.family, plan.config))
        .second;
  }

  const std::vector<jit::DeviceProperties>& devices_;
  std::set<std::pair<int, std::string>> kernels_;
  jit::ProblemList list_;
};

// Every number that few tokens may have, and then steps of a sixteenth.
int64_t NextTokens(int64_t tokens) {
  return tokens + std::max<int64_t>(1, tokens / 16);
}

}  // namespace

absl::StatusOr<Model> FindModel(absl::string_view name) {
  for (const Model& model : Models()) {
    if (model.name == name) return model;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--preset is ", name, "; allowed: ", PresetNames()));
}

absl::StatusOr<jit::ProblemList> Preset(
    absl::string_view name, const std::vector<jit::DeviceProperties>& devices,
    const std::atomic<bool>* stop) {
  ASSIGN_OR_RETURN(const Model model, FindModel(name));
  const auto stopped = [stop] { return stop != nullptr && *stop; };
  constexpr jit::Order kOrders[] = {jit::Order::kColumnMajor,
                                    jit::Order::kRowMajor};
  Cover cover(devices);
  // Every one is planned, since the planner promises nothing between two sizes:
  // 24 us each.
  for (const Weight& weight : model.weights) {
    for (const jit::Order b : kOrders) {
      for (int64_t tokens = 1; tokens <= kMaxTokens; ++tokens) {
        if (stopped()) return absl::CancelledError("stopped");
        cover.Add(Projection(weight, tokens, b));
      }
    }
  }
  std::mt19937 random;  // The same problems every time.
  for (int64_t tokens = 1; tokens <= kMaxTokens; tokens = NextTokens(tokens)) {
    for (const Routing routing :
         {Routing::kEven, Routing::kUniform, Routing::kSkewed}) {
      const auto counts = Route(model.experts, tokens, routing, random);
      for (const Weight& weight : model.experts.weights) {
        if (stopped()) return absl::CancelledError("stopped");
        for (const jit::Order b : kOrders) {
          cover.Add(ExpertProjections(weight, counts, b));
        }
      }
    }
  }
  return cover.Take();
}

std::string PresetNames() {
  return absl::StrJoin(Models(), ", ", [](std::string* out, const Model& m) {
    absl::StrAppend(out, m.name);
  });
}

}  // namespace gemmd::warmup
