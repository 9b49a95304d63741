#include "clients/warmup/presets.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/warmup/group_plans.h"
#include "jit/base/for_each.h"
#include "jit/base/status.h"

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

// Every number that few tokens may have, and then steps of a sixteenth.
int64_t NextTokens(int64_t tokens) {
  return tokens + std::max<int64_t>(1, tokens / 16);
}

constexpr jit::Order kOrders[] = {jit::Order::kColumnMajor,
                                  jit::Order::kRowMajor};

// All requests of a model, which are a million: those of one projection, groups
// of one, are made when they are asked for.
class Requests {
 public:
  Requests(const Model& model, int64_t most_tokens)
      : weights_(model.weights), most_tokens_(most_tokens) {
    std::mt19937 random;  // The same problems every time.
    for (int64_t tokens = 1; tokens <= most_tokens;
         tokens = NextTokens(tokens)) {
      for (const Routing routing :
           {Routing::kEven, Routing::kUniform, Routing::kSkewed}) {
        const auto counts = Route(model.experts, tokens, routing, random);
        for (const Weight& weight : model.experts.weights) {
          for (const jit::Order b : kOrders) {
            groups_.push_back(ExpertProjections(weight, counts, b));
          }
        }
      }
    }
  }

  int64_t size() const { return projections() + std::ssize(groups_); }

  jit::ProblemGroup operator[](int64_t i) const {
    if (i >= projections()) return groups_[i - projections()];
    const int64_t layer = i / most_tokens_;
    return {Projection(weights_[layer / 2], i % most_tokens_ + 1,
                       kOrders[layer % 2])};
  }

 private:
  int64_t projections() const {
    return 2 * std::ssize(weights_) * most_tokens_;
  }

  const std::vector<Weight> weights_;
  const int64_t most_tokens_;
  std::vector<jit::ProblemGroup> groups_;
};

// With the multiprocessors of its device: one problem may run with different
// kernels on different devices.
using Kernel = std::pair<int, std::string>;

std::vector<Kernel> KernelsOf(
    const jit::ProblemGroup& request,
    const std::vector<jit::DeviceProperties>& devices) {
  std::vector<Kernel> kernels;
  for (const jit::DeviceProperties& device : devices) {
    for (const PlannedProblem& planned : PlanGroup(request, device)) {
      const jit::Plan& plan = planned.plan;
      kernels.emplace_back(device.multiprocessors,
                           jit::KernelName(plan.family, plan.config));
    }
  }
  return kernels;
}

}  // namespace

absl::StatusOr<Model> FindModel(absl::string_view name) {
  for (const Model& model : Models()) {
    if (model.name == name) return model;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--preset is ", name, "; allowed: ", PresetNames()));
}

absl::StatusOr<jit::ProblemList> Preset(absl::string_view name,
                                        const PresetOptions& options) {
  ASSIGN_OR_RETURN(const Model model, FindModel(name));
  const auto stopped = [&] { return options.stop != nullptr && *options.stop; };
  const Requests requests(model, options.tokens);
  // Every one is planned, since the planner promises nothing between two sizes.
  std::mutex mutex;
  std::map<Kernel, int64_t> first;  // The first request with each kernel.
  const auto plan = [&](int64_t i) {
    if (stopped()) return;
    for (const Kernel& kernel : KernelsOf(requests[i], options.devices)) {
      std::lock_guard lock(mutex);
      const auto [known, is_new] = first.emplace(kernel, i);
      if (!is_new) known->second = std::min(known->second, i);
    }
  };
  jit::ForEach(options.threads, requests.size(), plan);
  if (stopped()) return absl::CancelledError("stopped");
  std::set<int64_t> cover;
  for (const auto& [kernel, request] : first) cover.insert(request);
  jit::ProblemList list;
  for (const int64_t i : cover) {
    jit::ProblemGroup request = requests[i];
    if (request.size() == 1) {
      list.problems.push_back(request[0]);
    } else {
      list.groups.push_back(std::move(request));
    }
  }
  return list;
}

std::string PresetNames() {
  return absl::StrJoin(Models(), ", ", [](std::string* out, const Model& m) {
    absl::StrAppend(out, m.name);
  });
}

}  // namespace gemmd::warmup
