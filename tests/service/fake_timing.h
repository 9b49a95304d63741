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

// Whether both give the same bits.
using PlanPair = std::function<bool(const jit::Plan&, const jit::Plan&)>;

class FakeTiming final : public device::Timing {
 public:
  // Without `same_bits`, all do.
  FakeTiming(absl::Span<const device::Contender> contenders, PlanTime time,
             PlanPair same_bits = nullptr)
      : contenders_(contenders.begin(), contenders.end()),
        time_(std::move(time)),
        same_bits_(std::move(same_bits)) {}

  absl::StatusOr<double> Sample(size_t i) override {
    return time_(contenders_[i].plan);
  }
  absl::StatusOr<bool> GiveSameBits(size_t i, size_t j) override {
    return !same_bits_ || same_bits_(contenders_[i].plan, contenders_[j].plan);
  }

 private:
  const std::vector<device::Contender> contenders_;
  const PlanTime time_;
  const PlanPair same_bits_;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_SERVICE_FAKE_TIMING_H_
