#include "service/gpu/launch.h"

#include "service/gpu/status.h"
#include "service/gpu/tensor_map.h"

namespace gemmd::gpu {

absl::StatusOr<PreparedLaunch> PrepareLaunch(const DriverTable& driver,
                                             const jit::Problem& problem,
                                             const jit::Plan& plan,
                                             CUfunction function,
                                             const LaunchMemory& memory) {
  PreparedLaunch launch = {};
  Arguments& arguments = launch.arguments;
  ASSIGN_OR_RETURN(arguments.d, EncodeTensorMap(driver, plan.d, memory.d));
  if (plan.depth > 0) {
    const CUdeviceptr x = plan.exchanged ? memory.b : memory.a;
    const CUdeviceptr y = plan.exchanged ? memory.a : memory.b;
    ASSIGN_OR_RETURN(arguments.x, EncodeTensorMap(driver, plan.x, x));
    ASSIGN_OR_RETURN(arguments.y, EncodeTensorMap(driver, plan.y, y));
  } else {
    // A kernel of depth 0 loads neither X nor Y, but may prefetch their maps,
    // so these have to be valid ones.
    arguments.x = arguments.d;
    arguments.y = arguments.d;
  }
  if (plan.family.reads_c) {
    ASSIGN_OR_RETURN(arguments.c, EncodeTensorMap(driver, plan.c, memory.c));
  }
  arguments.rows = static_cast<int>(plan.rows);
  arguments.columns = static_cast<int>(plan.columns);
  arguments.depth = static_cast<int>(plan.depth);
  arguments.raster_group = plan.raster_group;
  arguments.alpha = problem.alpha;
  arguments.beta = problem.beta;
  arguments.partials = reinterpret_cast<float*>(memory.partials);
  arguments.counters = reinterpret_cast<unsigned*>(memory.counters);

  launch.function = function;
  launch.grid = plan.grid;
  launch.threads = plan.threads;
  launch.shared_memory_bytes = plan.shared_memory_bytes;
  return launch;
}

absl::Status Enqueue(const PreparedLaunch& launch, const Stream& stream) {
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = 1;

  CUlaunchConfig config = {};
  config.gridDimX = static_cast<unsigned>(launch.grid);
  config.gridDimY = 1;
  config.gridDimZ = 1;
  config.blockDimX = static_cast<unsigned>(launch.threads);
  config.blockDimY = 1;
  config.blockDimZ = 1;
  config.sharedMemBytes = static_cast<unsigned>(launch.shared_memory_bytes);
  config.hStream = stream.get();
  config.attrs = &attribute;
  config.numAttrs = launch.overlaps_predecessor ? 1 : 0;

  // The driver copies the parameters before it returns.
  void* parameters[] = {const_cast<Arguments*>(&launch.arguments)};
  RETURN_IF_CUDA_ERROR(
      stream.driver(),
      cuLaunchKernelEx(&config, launch.function, parameters, nullptr));
  return absl::OkStatus();
}

}  // namespace gemmd::gpu
