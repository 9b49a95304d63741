#include "service/gpu/launch.h"

#include "jit/plan/launch_arithmetic.h"
#include "jit/plan/tiling.h"
#include "service/gpu/status.h"
#include "service/gpu/tensor_map.h"

namespace gemmd::gpu {

namespace {

const void* Pointer(CUdeviceptr p) { return reinterpret_cast<const void*>(p); }

EpilogueArguments MakeEpilogue(const jit::Problem& problem,
                               const jit::Plan& plan,
                               const LaunchMemory& memory) {
  EpilogueArguments arguments = {};
  arguments.rows = static_cast<int>(plan.rows);
  arguments.columns = static_cast<int>(plan.columns);
  arguments.alpha = problem.alpha;
  arguments.beta = problem.beta;
  if (plan.family.epilogue.reads_c) {
    const jit::MatrixLayout c = problem.c();
    arguments.c = Pointer(memory.c);
    arguments.c_pitch = c.pitch_bytes() / jit::BytesOf(c.type);
    arguments.c_matrix = c.matrix_lines() * arguments.c_pitch;
  }
  return arguments;
}

ReduceArguments MakeReduceArguments(const jit::Problem& problem,
                                    const jit::Plan& plan,
                                    const LaunchMemory& memory) {
  const jit::MatrixLayout d = problem.d();
  constexpr int64_t kPartialBytes = 4;
  return {.partials = Pointer(memory.partials),
          .d = reinterpret_cast<void*>(memory.d),
          .auxiliary = nullptr,
          .partials_pitch = plan.d.pitch_bytes / kPartialBytes,
          .pitch = d.pitch_bytes() / jit::BytesOf(d.type),
          .lines = d.matrix_lines(),
          .width = d.width(),
          .matrices = static_cast<int>(plan.batch),
          .splits = plan.splits,
          .epilogue = MakeEpilogue(problem, plan, memory)};
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
  if (plan.config.split_k) {
    launch.reduce_arguments = MakeReduceArguments(problem, plan, memory);
    launch.reduce_grid = plan.reduce_grid;
  }
  launch.functions = functions;
  if (plan.grid == 0) return launch;

  Arguments& arguments = launch.arguments;
  const CUdeviceptr x = plan.exchanged ? memory.b : memory.a;
  const CUdeviceptr y = plan.exchanged ? memory.a : memory.b;
  ASSIGN_OR_RETURN(arguments.x, EncodeTensorMap(driver, plan.x, x));
  ASSIGN_OR_RETURN(arguments.y, EncodeTensorMap(driver, plan.y, y));
  // Partial products go to the workspace; the reduction writes D.
  ASSIGN_OR_RETURN(
      arguments.d,
      EncodeTensorMap(driver, plan.d,
                      plan.config.split_k ? memory.partials : memory.d));
  if (jit::StagesC(plan.family, plan.config)) {
    ASSIGN_OR_RETURN(arguments.c, EncodeTensorMap(driver, plan.c, memory.c));
  }
  const int tile_rows =
      static_cast<int>(jit::DivideUp(plan.rows, plan.config.tile_m));
  const int tile_columns =
      static_cast<int>(jit::DivideUp(plan.columns, plan.config.tile_n));
  arguments.raster = RasterOf(tile_rows, tile_columns, plan.raster_group);
  arguments.units = static_cast<int>(jit::Tiles(plan) * plan.splits);
  arguments.stages = plan.stages;
  arguments.passes = plan.passes;
  arguments.x_planes = plan.x_planes;
  arguments.y_planes = plan.y_planes;
  const bool x_broadcast =
      plan.exchanged ? problem.b_broadcast : problem.a_broadcast;
  const bool y_broadcast =
      plan.exchanged ? problem.a_broadcast : problem.b_broadcast;
  arguments.x_matrices = static_cast<int>(x_broadcast ? 1 : plan.batch);
  arguments.y_matrices = static_cast<int>(y_broadcast ? 1 : plan.batch);
  const int stages = plan.stages * plan.passes;
  arguments.splits = DivisorOf(plan.splits);
  arguments.part_stages = stages / plan.splits;
  arguments.longer_parts = stages % plan.splits;
  arguments.epilogue = MakeEpilogue(problem, plan, memory);

  launch.overlaps_predecessor = plan.overlaps_predecessor;
  launch.grid = plan.grid;
  launch.threads = plan.threads;
  launch.shared_memory_bytes = plan.shared_memory_bytes;
  return launch;
}

absl::Status Enqueue(const PreparedLaunch& launch, const Stream& stream) {
  if (launch.grid != 0) {
    RETURN_IF_ERROR(EnqueueGrid(stream, launch.functions.multiply, launch.grid,
                                launch.threads, launch.shared_memory_bytes,
                                launch.overlaps_predecessor, launch.arguments));
  }
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
