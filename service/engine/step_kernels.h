// The kernels of a sequence's steps. Steps of one shape share one, so that a
// sequence of many like products is planned, looked up and counted once for
// each kind of them. Thread-compatible.
#ifndef GEMMD_SERVICE_ENGINE_STEP_KERNELS_H_
#define GEMMD_SERVICE_ENGINE_STEP_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "service/engine/preparer.h"
#include "service/engine/product.h"

namespace gemmd::engine {

// What steps of one shape share.
struct StepKernel {
  size_t first = 0;   // Of these steps.
  int64_t steps = 0;  // How many they are.
  Preparation preparation;
};

class StepKernels {
 public:
  explicit StepKernels(absl::Span<const Product> steps);

  // In the order of their first steps.
  std::vector<StepKernel>& all() { return all_; }
  const std::vector<StepKernel>& all() const { return all_; }

  // Whether the step has one: none that writes nothing does.
  bool has(size_t step) const { return of_step_[step] != kNone; }
  const StepKernel& of(size_t step) const { return all_[of_step_[step]]; }

  // Once they are there:
  // what the steps are predicted to take together,
  double Cycles() const;
  // what each step runs by, null of those that write nothing,
  std::vector<const Prepared*> OfSteps() const;
  // and whence its kernel came: for those behind the first one it was loaded.
  KernelSource SourceOf(size_t step) const;

 private:
  static constexpr size_t kNone = -1;

  std::vector<StepKernel> all_;
  std::vector<size_t> of_step_;
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_STEP_KERNELS_H_
