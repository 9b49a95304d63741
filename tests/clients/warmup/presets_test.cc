// Presets hold every kernel that their models can ask for.
#include "clients/warmup/presets.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

namespace gemmd::warmup {
namespace {

std::string KernelOf(const jit::Problem& problem,
                     const jit::DeviceProperties& device) {
  const jit::Plan plan = jit::ChoosePlan(problem, device);
  return jit::KernelName(plan.family, plan.config);
}

// Of 10,000 random requests: any number of tokens, weight and layout.
TEST(PresetsTest, CoverEveryRequestOfTheirModelOnEachDevice) {
  const std::vector<jit::DeviceProperties> devices = {{.multiprocessors = 132},
                                                      {.multiprocessors = 78}};
  const auto problems = Preset("llama-3-8b", devices);
  ASSERT_TRUE(problems.ok()) << problems.status();
  const std::vector<Weight> weights = *Weights("llama-3-8b");
  for (const jit::DeviceProperties& device : devices) {
    std::set<std::string> covered;
    for (const jit::Problem& problem : *problems) {
      covered.insert(KernelOf(problem, device));
    }
    std::mt19937 random(1);
    std::uniform_int_distribution<int64_t> tokens(1, kMaxTokens);
    for (int i = 0; i < 10000; ++i) {
      const jit::Problem request = Projection(
          weights[random() % weights.size()], tokens(random),
          random() % 2 ? jit::Order::kRowMajor : jit::Order::kColumnMajor);
      ASSERT_TRUE(covered.contains(KernelOf(request, device)))
          << jit::DebugString(request) << " on " << device.multiprocessors;
    }
  }
}

TEST(PresetsTest, UnknownNamesListTheKnown) {
  const auto none = Preset("gpt-0", {jit::DeviceProperties()});
  EXPECT_TRUE(absl::IsInvalidArgument(none.status()));
  EXPECT_NE(none.status().message().find(PresetNames()), std::string::npos);
}

}  // namespace
}  // namespace gemmd::warmup
