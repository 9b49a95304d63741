// Presets hold every kernel that their models can ask for.
#include "clients/warmup/presets.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "clients/warmup/group_plans.h"
#include "jit/plan/group_plan.h"
#include "jit/plan/tuned_plan.h"

namespace gemmd::warmup {
namespace {

// Fewer than by default, which is eight times as much to plan.
constexpr int64_t kTokens = 1024;

PresetOptions On(std::vector<jit::DeviceProperties> devices) {
  return {.devices = std::move(devices), .tokens = kTokens, .threads = 2};
}

std::string KernelOf(const jit::Problem& problem,
                     const jit::DeviceProperties& device) {
  const jit::Plan plan = jit::UntunedPlan(problem, device);
  return jit::KernelName(plan.family, plan.config);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kRequests = 1000;  // A sanitizer makes planning slow.
#else
constexpr int kRequests = 10000;
#endif

// Random requests: any number of tokens, weight and layout.
TEST(PresetsTest, CoverEveryRequestOfTheirModelOnEachDevice) {
  const std::vector<jit::DeviceProperties> devices = {{.multiprocessors = 132},
                                                      {.multiprocessors = 78}};
  const auto list = Preset("llama-3-8b", On(devices));
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_TRUE(list->groups.empty());
  const std::vector<Weight> weights = FindModel("llama-3-8b")->weights;
  for (const jit::DeviceProperties& device : devices) {
    std::set<std::string> covered;
    for (const jit::Problem& problem : list->problems) {
      covered.insert(KernelOf(problem, device));
    }
    std::mt19937 random(1);
    std::uniform_int_distribution<int64_t> tokens(1, kTokens);
    for (int i = 0; i < kRequests; ++i) {
      const jit::Problem request = Projection(
          weights[random() % weights.size()], tokens(random),
          random() % 2 ? jit::Order::kRowMajor : jit::Order::kColumnMajor);
      ASSERT_TRUE(covered.contains(KernelOf(request, device)))
          << jit::DebugString(request) << " on " << device.multiprocessors;
    }
  }
}

std::vector<jit::Plan> GroupKernels(const jit::ProblemList& list,
                                    const jit::DeviceProperties& device) {
  std::map<std::string, jit::Plan> kernels;
  for (const jit::ProblemGroup& group : list.groups) {
    for (const PlannedProblem& planned : PlanGroup(group, device)) {
      const jit::Plan& plan = planned.plan;
      kernels.emplace(jit::KernelName(plan.family, plan.config), plan);
    }
  }
  std::vector<jit::Plan> plans;
  for (const auto& [name, plan] : kernels) plans.push_back(plan);
  return plans;
}

// How much longer than with its own kernel `group` is predicted to take with
// the best of `kernels`, as a part of that.
double Excess(const jit::ProblemGroup& group,
              const std::vector<jit::Plan>& kernels,
              const jit::DeviceProperties& device) {
  double least = std::numeric_limits<double>::infinity();
  for (const jit::Plan& kernel : kernels) {
    const auto plan =
        jit::GroupPlanWith(group, device, kernel.family, kernel.config);
    if (plan) least = std::min(least, plan->predicted_cycles);
  }
  return least / jit::RankGroupPlans(group, device, 1)[0].predicted_cycles - 1;
}

TEST(PresetsTest, HaveAGoodKernelForEverySpreadOverExperts) {
  const jit::DeviceProperties device = {.multiprocessors = 132};
  const auto list = Preset("qwen-3-30b-a3b", On({device}));
  ASSERT_TRUE(list.ok()) << list.status();
  const std::vector<jit::Plan> kernels = GroupKernels(*list, device);
  const Experts experts = FindModel("qwen-3-30b-a3b")->experts;
  std::mt19937 random(1);
  std::uniform_real_distribution<double> log_tokens(0, std::log(kTokens));
  int own = 0;
  constexpr int kRequests = 300;
  for (int i = 0; i < kRequests; ++i) {
    const auto tokens = static_cast<int64_t>(std::exp(log_tokens(random)));
    jit::ProblemGroup group = ExpertProjections(
        experts.weights[random() % 2],
        Route(experts, tokens,
              random() % 2 ? Routing::kUniform : Routing::kSkewed, random),
        random() % 2 ? jit::Order::kRowMajor : jit::Order::kColumnMajor);
    std::shuffle(group.begin(), group.end(), random);
    const double excess = Excess(group, kernels, device);
    own += excess <= 0;
    EXPECT_LT(excess, 0.1) << jit::GroupLine(group);
  }
  EXPECT_GT(own, kRequests * 9 / 10);
}

TEST(PresetsTest, ExpertsHaveEveryTokenAsOftenAsItChooses) {
  const Experts experts = {.count = 16, .chosen = 3, .weights = {}};
  std::mt19937 random(1);
  for (const Routing routing :
       {Routing::kEven, Routing::kUniform, Routing::kSkewed}) {
    for (const int64_t tokens : {1, 5, 1000}) {
      const auto counts = Route(experts, tokens, routing, random);
      EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}),
                3 * tokens);
      EXPECT_TRUE(std::ranges::is_sorted(counts, std::greater<>()));
      EXPECT_LE(counts.front(), tokens);
      EXPECT_GT(counts.back(), 0);
      EXPECT_LE(counts.size(), 16u);
    }
  }
  EXPECT_EQ(Route(experts, 16, Routing::kEven, random),
            std::vector<int64_t>(16, 3));
  const auto skewed = Route(experts, 1000, Routing::kSkewed, random);
  EXPECT_GT(skewed.front(), 3 * skewed.back());
}

// A daemon has a limit of memory.
TEST(PresetsTest, AMillionRequestsAreNotHeldAtATime) {
  const std::atomic<bool> stop = true;
  rusage before, after;
  ASSERT_EQ(getrusage(RUSAGE_SELF, &before), 0);
  const auto list =
      Preset("deepseek-v3",
             {.devices = {{}}, .tokens = kMaxPresetTokens, .stop = &stop});
  ASSERT_EQ(getrusage(RUSAGE_SELF, &after), 0);
  EXPECT_TRUE(absl::IsCancelled(list.status()));
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 80 << 10);  // In KiB.
}

TEST(PresetsTest, UnknownNamesListTheKnown) {
  const auto none = Preset("gpt-0", On({{}}));
  EXPECT_TRUE(absl::IsInvalidArgument(none.status()));
  EXPECT_NE(none.status().message().find(PresetNames()), std::string::npos);
}

}  // namespace
}  // namespace gemmd::warmup
