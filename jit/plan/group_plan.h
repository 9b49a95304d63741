// Many products by one launch: which go together, and with which config.
// Pure functions, thread-safe.
#ifndef GEMMD_JIT_PLAN_GROUP_PLAN_H_
#define GEMMD_JIT_PLAN_GROUP_PLAN_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "jit/plan/plan.h"
#include "jit/plan/planner.h"
#include "jit/problem/problem.h"

namespace gemmd::jit {

// Products of one launch.
inline constexpr size_t kMaxProducts = gemmd::kMaxGroups;

// Whether a launch of several products may make it. Not what nothing
// multiplies, what other kernels have to prepare or to end, and what is
// measured over a whole product.
bool MayGoTogether(const Problem& problem);

// Whether one launch may make both, each of which may: but for sizes and
// scalars they are the same.
bool GoTogether(const Problem& a, const Problem& b);

// A config for all of `problems`, which go together, and its predicted time.
struct GroupPlan {
  Family family;
  Config config;
  double predicted_cycles = 0;
};

// Of `problems`, which go together, the best in order of predicted time, at
// most `count`.
std::vector<GroupPlan> RankGroupPlans(absl::Span<const Problem> problems,
                                      const DeviceProperties& device,
                                      int count);

// The same for who remembers `unsplit`, which takes most of the time: the
// UnsplitPlans of any product that goes together with them.
std::vector<GroupPlan> RankGroupPlans(absl::Span<const Problem> problems,
                                      const DeviceProperties& device,
                                      absl::Span<const Plan> unsplit,
                                      int count);

// The time of `problems`, which go together, with a kernel of another choice;
// null when it is of another family, or not for groups.
std::optional<GroupPlan> GroupPlanWith(absl::Span<const Problem> problems,
                                       const DeviceProperties& device,
                                       const Family& family,
                                       const Config& config);

// Whether one launch with that plan is predicted to end before one for each of
// them would, which take `cycles_alone`. Of many only the largest is asked for:
// one launch is taken unless it would be slower even if they all were like that
// one.
bool PaysTogether(absl::Span<const Problem> problems, const GroupPlan& group,
                  absl::FunctionRef<double(const Problem&)> cycles_alone);

// How each of them runs: its grid is that of the launch.
std::vector<Plan> PlansOf(absl::Span<const Problem> problems,
                          const DeviceProperties& device,
                          const GroupPlan& group);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PLAN_GROUP_PLAN_H_
