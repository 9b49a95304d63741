// Groups that nobody has thought of: each legal one is planned.
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "jit/plan/group_launches.h"
#include "jit/plan/group_plan.h"
#include "jit/plan/planner.h"
#include "jit/problem/arithmetic.h"
#include "jit/problem/group_line.h"
#include "jit/problem/problem_line.h"

namespace gemmd::jit {
namespace {

constexpr int kGroups = 3000;
constexpr int kMostProducts = 6;
constexpr size_t kTries = 20;
constexpr int kAllPlans = 1000;

class RandomGroupsTest : public ::testing::Test {
 protected:
  template <typename T>
  T OneOf(std::initializer_list<T> values) {
    return values.begin()[random_() % values.size()];
  }
  // An option, one time of four.
  std::string Perhaps(std::initializer_list<const char*> options) {
    return random_() % 4 == 0 ? absl::StrCat(" ", OneOf(options)) : "";
  }

  // What the products of a group have in common.
  std::string Family() {
    const auto all = Arithmetics();
    return absl::StrCat(Name(all[random_() % all.size()]), " ",
                        OneOf({"TN", "NN", "NT", "TT"}));
  }
  std::string Options() {
    return absl::StrCat(
        Perhaps({"order=row"}), Perhaps({"d=f32", "d=f16", "d=bf16"}),
        Perhaps({"bias=row", "bias=column"}), Perhaps({"act=relu", "act=gelu"}),
        Perhaps({"a_scale=tensor", "a_scale=row"}), Perhaps({"b_scale=column"}),
        Perhaps({"aux", "amax", "d_scale", "invariant"}));
  }
  // And what they have not.
  std::string Sizes() {
    std::string sizes;
    for (int i = 0; i < 3; ++i) {
      absl::StrAppend(&sizes, " ",
                      OneOf({0, 1, 7, 16, 64, 200, 1000, 4096, 100'000}));
    }
    return sizes;
  }
  std::string Scalars() {
    return absl::StrCat(Perhaps({"alpha=0", "alpha=2", "alpha=-1"}),
                        Perhaps({"beta=1", "beta=0.5"}),
                        Perhaps({"batch=0", "batch=3", "batch=1000"}),
                        Perhaps({"broadcast=a", "broadcast=b"}));
  }

  // Of one family, or nearly; none where no product of it is legal.
  std::vector<Problem> Group() {
    const std::string family = Family();
    const std::string options = Options();
    const size_t count = 1 + random_() % kMostProducts;
    std::vector<Problem> problems;
    for (size_t i = 0; i < kTries && problems.size() < count; ++i) {
      const auto problem =
          ParseProblemLine(absl::StrCat(family, Sizes(), options, Scalars()));
      if (problem.ok()) problems.push_back(*problem);
    }
    return problems;
  }

  std::minstd_rand random_{1};
};

TEST_F(RandomGroupsTest, EachIsPlanned) {
  const DeviceProperties device;
  int together = 0;
  for (int i = 0; i < kGroups; ++i) {
    const std::vector<Problem> group = Group();
    std::vector<const Problem*> pointers;
    for (const Problem& problem : group) pointers.push_back(&problem);
    for (const std::vector<size_t>& launch : GroupLaunches(pointers)) {
      std::vector<Problem> problems;
      for (const size_t at : launch) problems.push_back(group[at]);
      SCOPED_TRACE(ProblemLine(problems[0]));
      if (problems.size() == 1) {
        EXPECT_FALSE(RankPlans(problems[0], device, 1).empty());
        continue;
      }
      for (const Problem& problem : problems) {
        ASSERT_TRUE(MayGoTogether(problem)) << ProblemLine(problem);
      }
      const std::vector<GroupPlan> plans =
          RankGroupPlans(problems, device, kAllPlans);
      // What is remembered of a family is that of any product.
      EXPECT_EQ(plans.size(),
                RankGroupPlans(problems, device,
                               UnsplitPlans(problems.back(), device), kAllPlans)
                    .size());
      for (const GroupPlan& plan : plans) {
        EXPECT_EQ(PlansOf(problems, device, plan).size(), problems.size());
      }
      together += !plans.empty();
      // What is recorded of it leads to the same kernel.
      const auto recorded = ParseGroupLine(GroupLine(problems));
      ASSERT_TRUE(recorded.ok())
          << GroupLine(problems) << ": " << recorded.status();
      const std::vector<GroupPlan> again =
          RankGroupPlans(*recorded, device, kAllPlans);
      ASSERT_EQ(again.size(), plans.size());
      if (plans.empty()) continue;
      EXPECT_EQ(again[0].config, plans[0].config) << GroupLine(problems);
    }
  }
  EXPECT_GT(together, kGroups / 10);
}

}  // namespace
}  // namespace gemmd::jit
