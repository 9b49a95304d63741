// The speed of the tensor cores on operands that are already in shared
// memory: what no product can exceed.
#ifndef GEMMD_TESTS_BENCH_CEILING_H_
#define GEMMD_TESTS_BENCH_CEILING_H_

#include <memory>

#include "absl/status/statusor.h"
#include "jit/cache/kernel_cache.h"
#include "jit/source/instance.h"
#include "service/gpu/cuda_device.h"
#include "tests/bench/timer.h"

namespace gemmd::bench {

absl::StatusOr<jit::Instance> CeilingInstance(
    const jit::TemplateLibrary& templates, const jit::Instruction& instruction);

// TFLOP/s, burst.
absl::StatusOr<double> MeasureCeiling(
    const gpu::CudaDevice& device, const std::shared_ptr<gpu::Stream>& stream,
    const jit::TemplateLibrary& templates, jit::KernelCache& cache,
    const jit::Instruction& instruction, const Timer& timer);

}  // namespace gemmd::bench

#endif  // GEMMD_TESTS_BENCH_CEILING_H_
