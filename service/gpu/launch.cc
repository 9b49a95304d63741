#include "service/gpu/launch.h"

#include "service/gpu/status.h"
#include "service/gpu/tensor_map.h"

namespace gemmd::gpu {

namespace {

ReduceArguments MakeReduceArguments(const jit::Problem& problem,
                                    const jit::Plan& plan,
                                    const LaunchMemory& memory) {
  const jit::MatrixLayout d = problem.d();
  return {.partials = reinterpret_cast<const float*>(memory.partials),
          .c = reinterpret_cast<const void*>(memory.c),
          .d = reinterpret_cast<void*>(memory.d),
          .partials_pitch =
              plan.d.pitch_bytes / static_cast<int64_t>(sizeof(float)),
          .pitch = d.pitch_bytes() / jit::BytesOf(d.type),
          .width = static_cast<int>(d.width()),
          .lines = static_cast<int>(d.lines()),
          .splits = plan.splits,
          .partial_lines = plan.partial_lines,
          .alpha = problem.alpha,
          .beta = problem.beta};
}

// Launches `function` with its one parameter; `overlaps` lets it start while
// its predecessor drains.
template <typename T>
absl::Status EnqueueGrid(const Stream& stream, CUfunction function, int grid,
                         int threads, int shared_memory_bytes, bool overlaps,
                         const T& argument) {
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = 1;

  CUlaunchConfig config = {};
  config.gridDimX = static_cast<unsigned>(grid);
  config.gridDimY = 1;
  config.gridDimZ = 1;
  config.blockDimX = static_cast<unsigned>(threads);
  config.blockDimY = 1;
  config.blockDimZ = 1;
  config.sharedMemBytes = static_cast<unsigned>(shared_memory_bytes);
  config.hStream = stream.get();
  config.attrs = &attribute;
  config.numAttrs = overlaps ? 1 : 0;

  // The driver copies the parameters before it returns.
  void* parameters[] = {const_cast<T*>(&argument)};
  RETURN_IF_CUDA_ERROR(stream.driver(), cuLaunchKernelEx(&config, function,
                                                         parameters, nullptr));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PreparedLaunch> PrepareLaunch(const DriverTable& driver,
                                             const jit::Problem& problem,
                                             const jit::Plan& plan,
                                             const KernelFunctions& functions,
                                             const LaunchMemory& memory) {
  PreparedLaunch launch = {};
  Arguments& arguments = launch.arguments;
  // Partial products go to the workspace; the reduction writes D.
  ASSIGN_OR_RETURN(
      arguments.d,
      EncodeTensorMap(driver, plan.d,
                      plan.config.split_k ? memory.partials : memory.d));
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
  if (plan.family.reads_c && !plan.config.split_k) {
    ASSIGN_OR_RETURN(arguments.c, EncodeTensorMap(driver, plan.c, memory.c));
  }
  arguments.rows = static_cast<int>(plan.rows);
  arguments.columns = static_cast<int>(plan.columns);
  arguments.depth = static_cast<int>(plan.depth);
  arguments.raster_group = plan.raster_group;
  arguments.alpha = problem.alpha;
  arguments.beta = problem.beta;
  arguments.splits = plan.splits;
  arguments.partial_lines = plan.partial_lines;
  if (plan.config.split_k) {
    launch.reduce_arguments = MakeReduceArguments(problem, plan, memory);
    launch.reduce_grid = plan.reduce_grid;
  }

  launch.overlaps_predecessor = plan.overlaps_predecessor;
  launch.functions = functions;
  launch.grid = plan.grid;
  launch.threads = plan.threads;
  launch.shared_memory_bytes = plan.shared_memory_bytes;
  return launch;
}

absl::Status Enqueue(const PreparedLaunch& launch, const Stream& stream) {
  RETURN_IF_ERROR(EnqueueGrid(stream, launch.functions.multiply, launch.grid,
                              launch.threads, launch.shared_memory_bytes,
                              launch.overlaps_predecessor, launch.arguments));
  if (launch.reduce_grid == 0) return absl::OkStatus();
  return EnqueueGrid(stream, launch.functions.reduce, launch.reduce_grid,
                     kReduceThreads, 0, /*overlaps=*/true,
                     launch.reduce_arguments);
}

absl::Status EnqueuePrepare(const jit::PrepareLaunch& launch,
                            CUfunction function, const Stream& stream) {
  return EnqueueGrid(stream, function, launch.grid, kPrepareThreads, 0,
                     /*overlaps=*/true, launch.arguments);
}

}  // namespace gemmd::gpu
