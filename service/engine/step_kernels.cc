#include "service/engine/step_kernels.h"

#include "absl/container/flat_hash_map.h"
#include "service/engine/shape.h"

namespace gemmd::engine {

StepKernels::StepKernels(absl::Span<const Product> steps) {
  absl::flat_hash_map<Shape, size_t> known;
  of_step_.reserve(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    const jit::Problem& problem = steps[i].problem;
    size_t kernel = kNone;
    if (i > 0 && problem == steps[i - 1].problem) {
      kernel = of_step_.back();
    } else if (problem.writes()) {
      const auto [at, is_new] = known.try_emplace(Shape(problem), all_.size());
      if (is_new) all_.push_back({.first = i});
      kernel = at->second;
    }
    if (kernel != kNone) ++all_[kernel].steps;
    of_step_.push_back(kernel);
  }
}

double StepKernels::Cycles() const {
  double cycles = 0;
  for (const StepKernel& kernel : all_) {
    cycles += static_cast<double>(kernel.steps) *
              kernel.preparation.prepared->plan.predicted_cycles;
  }
  return cycles;
}

std::vector<const Prepared*> StepKernels::OfSteps() const {
  std::vector<const Prepared*> prepared;
  prepared.reserve(of_step_.size());
  for (size_t i = 0; i < of_step_.size(); ++i) {
    prepared.push_back(has(i) ? of(i).preparation.prepared.get() : nullptr);
  }
  return prepared;
}

KernelSource StepKernels::SourceOf(size_t step) const {
  const StepKernel& kernel = of(step);
  return step == kernel.first ? kernel.preparation.source
                              : KernelSource::kLoaded;
}

}  // namespace gemmd::engine
