#include "jit/plan/group_plan.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "jit/base/status.h"
#include "jit/plan/cost_model.h"
#include "jit/plan/launch_arithmetic.h"

namespace gemmd::jit {
namespace {

// Of so many products each is planned; of more, which takes long, the largest.
constexpr size_t kMany = 8;
// From the end of one launch to the first load of the next.
constexpr double kLaunchCycles = 3000;

// What products have in common that go together: their family depends on
// nothing else.
Problem CommonOf(Problem problem) {
  problem.m = problem.n = problem.k = problem.batch = 1;
  problem.a_broadcast = problem.b_broadcast = false;
  if (problem.alpha != 1.0f) problem.alpha = 2.0f;
  problem.beta = problem.reads_c() ? 1.0f : 0.0f;
  return problem;
}

double Multiplications(const Problem& p) {
  return static_cast<double>(p.m) * static_cast<double>(p.n) *
         static_cast<double>(p.k) * static_cast<double>(p.batch);
}

// Products of the same sizes count together.
std::vector<GroupedProduct> Products(absl::Span<const Problem> problems) {
  std::map<std::tuple<int64_t, int64_t, int64_t>, int64_t> counts;
  for (const Problem& problem : problems) {
    const Problem p = Folded(problem);
    counts[{p.m, p.n, p.k}] += p.batch;
  }
  std::vector<GroupedProduct> products;
  for (const auto& [sizes, count] : counts) {
    const auto& [m, n, k] = sizes;
    products.push_back({m, n, k, count});
  }
  return products;
}

GroupPlan PlanOf(const Plan& plan, absl::Span<const GroupedProduct> products,
                 const DeviceProperties& device) {
  GroupPlan group = {plan.family, plan.config,
                     PredictGroupCycles(plan, products, device)};
  group.config.grouped = true;
  return group;
}

}  // namespace

bool MayGoTogether(const Problem& problem) {
  return problem.writes() && problem.reads_ab() &&
         !problem.epilogue.measures_amax &&
         problem.bit_operation != BitOperation::kXor &&
         !(problem.reads_c() && problem.c_type != problem.d_type);
}

bool GoTogether(const Problem& a, const Problem& b) {
  return CommonOf(a) == CommonOf(b);
}

std::vector<GroupPlan> RankGroupPlans(absl::Span<const Problem> problems,
                                      const DeviceProperties& device,
                                      int count) {
  return RankGroupPlans(problems, device, UnsplitPlans(problems[0], device),
                        count);
}

std::vector<GroupPlan> RankGroupPlans(absl::Span<const Problem> problems,
                                      const DeviceProperties& device,
                                      absl::Span<const Plan> unsplit,
                                      int count) {
  const std::vector<GroupedProduct> products = Products(problems);
  std::vector<GroupPlan> groups;
  groups.reserve(unsplit.size());
  for (const Plan& plan : unsplit) {
    groups.push_back(PlanOf(plan, products, device));
  }
  const auto end =
      groups.begin() + std::min<ptrdiff_t>(count, std::ssize(groups));
  std::partial_sort(groups.begin(), end, groups.end(),
                    [](const GroupPlan& a, const GroupPlan& b) {
                      return a.predicted_cycles < b.predicted_cycles;
                    });
  groups.erase(end, groups.end());
  return groups;
}

std::optional<GroupPlan> GroupPlanWith(absl::Span<const Problem> problems,
                                       const DeviceProperties& device,
                                       const Family& family,
                                       const Config& config) {
  if (!config.grouped) return std::nullopt;
  const std::optional<Plan> plan =
      PlanWith(problems[0], device, family, config);
  if (!plan) return std::nullopt;
  return PlanOf(*plan, Products(problems), device);
}

bool PaysTogether(absl::Span<const Problem> problems, const GroupPlan& group,
                  absl::FunctionRef<double(const Problem&)> cycles_alone) {
  const auto count = static_cast<double>(problems.size());
  double apart = count * kLaunchCycles;
  if (problems.size() > kMany) {
    // They take no longer than if all were the largest.
    apart += count * cycles_alone(*std::ranges::max_element(problems, {},
                                                            Multiplications));
  } else {
    for (const Problem& problem : problems) apart += cycles_alone(problem);
  }
  return kLaunchCycles + group.predicted_cycles < apart;
}

std::vector<Plan> PlansOf(absl::Span<const Problem> problems,
                          const DeviceProperties& device,
                          const GroupPlan& group) {
  std::vector<Plan> plans;
  int64_t tiles = 0;
  for (const Problem& problem : problems) {
    std::optional<Plan> plan =
        PlanWith(problem, device, group.family, group.config);
    CHECK(plan.has_value());
    tiles += Tiles(*plan);
    plans.push_back(*std::move(plan));
  }
  const auto grid =
      static_cast<int>(std::min<int64_t>(tiles, device.multiprocessors));
  for (Plan& plan : plans) plan.grid = grid;
  return plans;
}

}  // namespace gemmd::jit
