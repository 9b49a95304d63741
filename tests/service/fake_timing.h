// Times that a test makes up.
#ifndef GEMMD_TESTS_SERVICE_FAKE_TIMING_H_
#define GEMMD_TESTS_SERVICE_FAKE_TIMING_H_

#include <functional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "jit/plan/plan.h"
#include "service/device/timing.h"

namespace gemmd::testing {

// Microseconds that a product takes with a plan.
using PlanTime = std::function<absl::StatusOr<double>(const jit::Plan&)>;

class FakeTiming final : public device::Timing {
 public:
  FakeTiming(absl::Span<const device::Contender> contenders, PlanTime time)
      : contenders_(contenders.begin(), contenders.end()),
        time_(std::move(time)) {}

  absl::StatusOr<double> Sample(size_t i) override {
    return time_(contenders_[i].plan);
  }

 private:
  const std::vector<device::Contender> contenders_;
  const PlanTime time_;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_SERVICE_FAKE_TIMING_H_
