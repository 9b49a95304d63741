// The benchmark's own kernels, compiled at run time and loaded.
// Thread-compatible.
#ifndef GEMMD_TESTS_BENCH_DEVICE_CODE_H_
#define GEMMD_TESTS_BENCH_DEVICE_CODE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "jit/cache/kernel_cache.h"
#include "jit/problem/problem.h"
#include "jit/source/instance.h"
#include "service/gpu/module.h"
#include "service/gpu/stream.h"
#include "templates/common/arguments.h"
#include "tests/bench/kernels/elements.h"
// Follows elements.h, whose types it uses.
#include "tests/bench/kernels/arguments.h"

namespace gemmd::bench {

Element ElementOf(jit::DataType type);

class DeviceCode {
 public:
  // What Load needs compiled, for compiling everything up front.
  static absl::StatusOr<std::vector<jit::Instance>> Instances(
      const jit::TemplateLibrary& templates);

  static absl::StatusOr<std::unique_ptr<DeviceCode>> Load(
      const gpu::Context* context, const jit::TemplateLibrary& templates,
      jit::KernelCache& cache);

  absl::Status Fill(const FillArguments& arguments,
                    const gpu::Stream& stream) const;
  absl::Status Compare(const CompareArguments& arguments,
                       const gpu::Stream& stream) const;
  absl::Status CountForeign(const ForeignArguments& arguments,
                            const gpu::Stream& stream) const;
  // The product's own kernel that pads operands.
  absl::Status Repitch(const RepitchArguments& arguments,
                       const gpu::Stream& stream) const;

 private:
  explicit DeviceCode(std::vector<gpu::Module> modules)
      : modules_(std::move(modules)) {}

  std::vector<gpu::Module> modules_;  // In the order of Instances().
};

}  // namespace gemmd::bench

#endif  // GEMMD_TESTS_BENCH_DEVICE_CODE_H_
