// The forms that our kernels read A and B of a problem in, made for every copy
// of the operands, once beforehand and again whenever it is to be timed.
#ifndef GEMMD_TESTS_BENCH_DERIVATION_H_
#define GEMMD_TESTS_BENCH_DERIVATION_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "jit/cache/kernel_cache.h"
#include "service/gpu/cuda_device.h"
#include "service/gpu/module.h"
#include "tests/bench/operands.h"
#include "tests/bench/our_product.h"

namespace gemmd::bench {

class Derivation {
 public:
  // Gives each copy what the plans of `choices` read; those of one problem ask
  // for the same forms. `operands` outlives this object.
  static absl::StatusOr<Derivation> Create(
      const gpu::CudaDevice& device, const std::shared_ptr<gpu::Stream>& stream,
      const std::vector<Choice>& choices, jit::KernelCache& cache,
      Operands& operands);

  // Whether A or B is read in another form than the stored one.
  bool needed() const { return a_.has_value() || b_.has_value(); }
  // Derives the forms of copy `i` from its padded operands.
  absl::Status Enqueue(int i) const;

 private:
  struct Kernel {
    jit::Form form;
    gpu::Module module;
  };

  Derivation(std::shared_ptr<gpu::Stream> stream, const Operands& operands)
      : stream_(std::move(stream)), operands_(operands) {}

  absl::Status Enqueue(const Kernel& kernel, const Matrix& matrix) const;

  const std::shared_ptr<gpu::Stream> stream_;
  const Operands& operands_;
  std::optional<Kernel> a_;
  std::optional<Kernel> b_;
};

}  // namespace gemmd::bench

#endif  // GEMMD_TESTS_BENCH_DERIVATION_H_
