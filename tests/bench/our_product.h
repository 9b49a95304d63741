// Our kernels for one problem: plans, and a plan made ready to run on a set of
// operands.
#ifndef GEMMD_TESTS_BENCH_OUR_PRODUCT_H_
#define GEMMD_TESTS_BENCH_OUR_PRODUCT_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "jit/cache/kernel_cache.h"
#include "jit/plan/planner.h"
#include "jit/problem/problem.h"
#include "jit/source/instance.h"
#include "service/gpu/cuda_device.h"
#include "service/gpu/launch.h"
#include "service/gpu/module.h"
#include "service/gpu/workspace.h"
#include "tests/bench/operands.h"

namespace gemmd::bench {

struct Choice {
  jit::Plan plan;
  jit::Instance instance;
  // Of the kernels that derive the forms of A and of B, where it asks for any.
  std::vector<jit::Instance> preparations;
};

absl::StatusOr<Choice> ChoiceOf(const jit::Problem& problem,
                                const jit::Plan& plan,
                                const jit::TemplateLibrary& templates);

// With `count` 1 the plan that the daemon would use, else the `count` best;
// and `explore` further ones, spread over the ranks of those whose predicted
// time is at most four times the best.
absl::StatusOr<std::vector<Choice>> Choices(
    const jit::Problem& problem, const jit::DeviceProperties& device,
    const jit::TemplateLibrary& templates, int count, int explore);

// Compiles all at once, as many in parallel as there are cores. Afterwards
// `cache` holds those that compiled. One status for each, in their order.
std::vector<absl::Status> CompileAll(
    const std::vector<jit::Instance>& instances, jit::KernelCache& cache);

class OurProduct {
 public:
  // `operands` outlives this object.
  static absl::StatusOr<std::unique_ptr<OurProduct>> Create(
      const gpu::CudaDevice& device, const std::shared_ptr<gpu::Stream>& stream,
      const jit::Problem& problem, const Choice& choice,
      jit::KernelCache& cache, const Operands& operands);

  const jit::Plan& plan() const { return plan_; }
  const std::string& name() const { return name_; }

  // The product of copy `i`, from operands in the forms that the plan asks for
  // (see Derivation) to its padded D.
  absl::Status Enqueue(int i) const;
  // The product of copy 0 into other memory of D's padded layout.
  absl::Status EnqueueInto(CUdeviceptr d) const;

 private:
  OurProduct(std::shared_ptr<gpu::Stream> stream, jit::Problem problem,
             const Choice& choice, gpu::Module module);

  absl::StatusOr<gpu::PreparedLaunch> Prepare(const OperandCopy& copy,
                                              CUdeviceptr d) const;

  const std::shared_ptr<gpu::Stream> stream_;
  const jit::Problem problem_;
  const jit::Plan plan_;
  const std::string name_;
  const gpu::Module module_;
  gpu::KernelFunctions functions_;
  gpu::Workspace workspace_;
  const OperandCopy* first_ = nullptr;
  std::vector<gpu::PreparedLaunch> launches_;  // By operand copy.
};

}  // namespace gemmd::bench

#endif  // GEMMD_TESTS_BENCH_OUR_PRODUCT_H_
