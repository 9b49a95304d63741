// One product ready to launch: kernel arguments with encoded tensor maps, and
// the launch configuration. Plain data; may be enqueued any number of times
// while the memory it names lives.
#ifndef GEMMD_SERVICE_GPU_LAUNCH_H_
#define GEMMD_SERVICE_GPU_LAUNCH_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "jit/plan/form.h"
#include "jit/plan/plan.h"
#include "jit/problem/problem.h"
#include "service/gpu/module.h"
#include "service/gpu/stream.h"
#include "service/gpu/tensor_map.h"
#include "templates/common/arguments.h"

namespace gemmd::gpu {

// Device memory of one product, operands in the forms that the plan asks for.
// Null where the plan does not use it.
struct LaunchMemory {
  CUdeviceptr a = 0;
  CUdeviceptr b = 0;
  CUdeviceptr metadata = 0;  // Of a sparse A or B, beside what is stored.
  CUdeviceptr c = 0;
  CUdeviceptr d = 0;
  CUdeviceptr partials = 0;  // Plan::partials_bytes.
  // Plan::balanced_units: kPassFlags words for each of its CTAs, zero at first,
  // and again after each launch.
  CUdeviceptr pass_flags = 0;
  // Values of the epilogue, in the layouts that the problem gives.
  CUdeviceptr bias = 0;
  CUdeviceptr a_scale = 0;
  CUdeviceptr b_scale = 0;
  CUdeviceptr d_scale = 0;
  CUdeviceptr auxiliary = 0;
  CUdeviceptr amax = 0;       // Zero at first.
  CUdeviceptr line_bits = 0;  // Plan::line_bits_bytes.
};

// The kernels of one cubin.
struct KernelFunctions {
  CUfunction multiply = nullptr;
  CUfunction reduce = nullptr;     // Only of a config that splits k.
  CUfunction line_bits = nullptr;  // Only of a family that counts them.
};

// Those of `module` that `plan` launches.
absl::StatusOr<KernelFunctions> FunctionsOf(const Module& module,
                                            const jit::Plan& plan);

// FAILED_PRECONDITION where the device has no room for the plan's clusters.
absl::Status CheckClusters(const DriverTable& driver, CUfunction function,
                           const jit::Plan& plan);

struct PreparedLaunch {
  Arguments arguments;
  ReduceArguments reduce_arguments;
  LineBitsArguments line_bits_arguments;
  KernelFunctions functions;
  int grid = 0;     // 0 for an empty product: only the reduction runs.
  int cluster = 1;  // CTAs of a cluster.
  int threads = 0;
  int shared_memory_bytes = 0;
  int reduce_grid = 0;     // 0 without a reduction.
  int line_bits_grid = 0;  // 0 where no line's bits are counted.
  bool brief = false;      // As the plan is.
};

// Encodes what `plan` asks for, or takes it from `maps`. `problem` is the one
// that it was made for.
absl::StatusOr<PreparedLaunch> PrepareLaunch(const DriverTable& driver,
                                             TensorMaps& maps,
                                             const jit::Problem& problem,
                                             const jit::Plan& plan,
                                             const KernelFunctions& functions,
                                             const LaunchMemory& memory);
absl::StatusOr<PreparedLaunch> PrepareLaunch(const DriverTable& driver,
                                             const jit::Problem& problem,
                                             const jit::Plan& plan,
                                             const KernelFunctions& functions,
                                             const LaunchMemory& memory);

// The stream's context is current.
absl::Status Enqueue(const PreparedLaunch& launch, const Stream& stream);

// Products that one launch makes: `launches` are of plans with the same kernel,
// which is grouped, and the same grid; at most kMaxGroups.
struct PreparedGroup {
  std::vector<Arguments> products;  // To be brought to the device.
  GroupedArguments arguments;
  CUfunction function = nullptr;
  int grid = 0;
  int threads = 0;
  int shared_memory_bytes = 0;
};
PreparedGroup Group(absl::Span<const PreparedLaunch> launches);

// The stream's context is current; `products` are in device memory by then.
absl::Status EnqueueGroup(PreparedGroup group, CUdeviceptr products,
                          const Stream& stream);

// Derives a form: `function` is the kernel of jit::MakePrepareInstance,
// `launch` holds its pointers. The stream's context is current.
absl::Status EnqueuePrepare(const jit::PrepareLaunch& launch,
                            CUfunction function, const Stream& stream);

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_LAUNCH_H_
