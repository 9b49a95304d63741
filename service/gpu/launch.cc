#include "service/gpu/launch.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "jit/base/status.h"
#include "jit/plan/launch_arithmetic.h"
#include "jit/plan/tiling.h"
#include "jit/source/instance.h"
#include "service/gpu/grid.h"

namespace gemmd::gpu {

namespace {

const void* Pointer(CUdeviceptr p) { return reinterpret_cast<const void*>(p); }

template <typename T>
T* Typed(CUdeviceptr p) {
  return reinterpret_cast<T*>(p);
}

EpilogueArguments MakeEpilogue(const jit::Problem& problem,
                               const jit::Plan& plan,
                               const LaunchMemory& memory) {
  EpilogueArguments arguments = {};
  arguments.rows = static_cast<int>(plan.rows);
  arguments.columns = static_cast<int>(plan.columns);
  arguments.alpha = problem.alpha;
  arguments.beta = problem.beta;
  const auto* a = Typed<const float>(memory.a_scale);
  const auto* b = Typed<const float>(memory.b_scale);
  arguments.row_scale = plan.exchanged ? b : a;
  arguments.column_scale = plan.exchanged ? a : b;
  arguments.bias = Typed<const float>(memory.bias);
  arguments.d_scale = Typed<const float>(memory.d_scale);
  arguments.amax = Typed<unsigned>(memory.amax);
  if (plan.family.epilogue.exclusive_or) {
    const auto* bits = Typed<const int>(memory.line_bits);
    arguments.row_bits = bits;
    arguments.column_bits = bits + plan.x.lines * plan.x.matrices;
    arguments.row_bits_matrix = plan.x.matrices == 1 ? 0 : plan.x.lines;
    arguments.column_bits_matrix = plan.y.matrices == 1 ? 0 : plan.y.lines;
  }
  if (plan.family.epilogue.reads_c) {
    const jit::MatrixLayout c = problem.c();
    arguments.c = Pointer(memory.c);
    arguments.c_pitch = c.pitch_bytes() / jit::BytesOf(c.type);
    arguments.c_matrix = c.matrix_lines() * arguments.c_pitch;
  }
  return arguments;
}

// Lines of tiles at the edge that others have as well are made twice. That is
// no use where they come in blocks, as metadata, fragments and scales do, and
// wrong where D is C. Boxes begin at multiples of 16 bytes, those of D at whole
// sectors, and those of an mn-major operand better at lines of the cache.
void SetLastTiles(const jit::Plan& plan, const LaunchMemory& memory,
                  Arguments& arguments) {
  const jit::Family& family = plan.family;
  const jit::Config& config = plan.config;
  const bool once = jit::StagesC(family, config) && memory.c == memory.d;
  const int least = std::max(
      16, kSectorBytes / jit::BytesOf(family.epilogue.output));
  const auto unit = [least](Major major) {
    return major == Major::kMn ? 64 : least;
  };
  arguments.last_row = arguments.last_column = std::numeric_limits<int>::max();
  if (!once && !family.instruction.sparse && !family.widening) {
    arguments.last_row = LastTileLine(
        config.tile_m, static_cast<int>(plan.rows), unit(family.x_major));
  }
  if (!once && family.sum != jit::Summation::kBlockScaled) {
    arguments.last_column = LastTileLine(
        config.tile_n, static_cast<int>(plan.columns), unit(family.y_major));
  }
}

BlockScales MakeScales(const jit::Problem& problem,
                       const LaunchMemory& memory) {
  constexpr int64_t kBytes = sizeof(float);
  return {.x = Typed<const float>(memory.a_scale),
          .y = Typed<const float>(memory.b_scale),
          .x_pitch = problem.a_scale().pitch_bytes() / kBytes,
          .y_pitch = problem.b_scale().pitch_bytes() / kBytes};
}

ReduceArguments MakeReduceArguments(const jit::Problem& problem,
                                    const jit::Plan& plan,
                                    const LaunchMemory& memory) {
  const jit::MatrixLayout d = problem.d();
  constexpr int64_t kPartialBytes = 4;
  return {.partials = Pointer(memory.partials),
          .d = reinterpret_cast<void*>(memory.d),
          .auxiliary = Typed<void>(memory.auxiliary),
          .partials_pitch = plan.d.pitch_bytes / kPartialBytes,
          .pitch = d.pitch_bytes() / jit::BytesOf(d.type),
          .lines = DivisorOf(static_cast<int>(d.matrix_lines())),
          .quads = DivisorOf(
              static_cast<int>(jit::DivideUp(d.width(), kReduceElements))),
          .matrices = static_cast<int>(plan.batch),
          .splits = plan.splits,
          .lane_bits = plan.reduce_lane_bits,
          .starts_next_early = plan.brief,
          .epilogue = MakeEpilogue(problem, plan, memory)};
}

LineBits MakeLineBits(const jit::TensorMapSpec& operand, CUdeviceptr from,
                      CUdeviceptr to) {
  return {.from = Pointer(from),
          .to = Typed<int>(to),
          .pitch = operand.pitch_bytes,
          .width = operand.width,  // b1 counts bytes.
          .lines = operand.lines * operand.matrices};
}

Balance MakeBalance(const jit::Plan& plan, const Arguments& arguments,
                    const LaunchMemory& memory) {
  Balance balance = {.first_unit = arguments.units};
  if (plan.balanced_units == 0) return balance;
  const int workers = plan.grid / jit::ClusterCtas(plan.config);
  const int stages = plan.balanced_units * arguments.part_stages;
  balance.first_unit -= plan.balanced_units;
  balance.rounds = balance.first_unit / workers;
  balance.stages = stages / workers;
  balance.longer = stages % workers;
  balance.least = jit::kLeastBalancedStages;
  balance.unit_stages = DivisorOf(arguments.part_stages);
  balance.sums = Typed<void>(memory.partials);
  balance.flags = Typed<unsigned>(memory.pass_flags);
  return balance;
}

}  // namespace

absl::StatusOr<PreparedLaunch> PrepareLaunch(const DriverTable& driver,
                                             TensorMaps& maps,
                                             const jit::Problem& asked,
                                             const jit::Plan& plan,
                                             const KernelFunctions& functions,
                                             const LaunchMemory& memory) {
  const jit::Problem problem = jit::Folded(asked);
  PreparedLaunch launch = {};
  if (plan.config.split_k) {
    launch.reduce_arguments = MakeReduceArguments(problem, plan, memory);
    launch.reduce_grid = plan.reduce_grid;
  }
  launch.functions = functions;
  if (plan.grid == 0) return launch;
  const auto encode = [&](const jit::TensorMapSpec& spec, CUdeviceptr pointer) {
    return maps.Of(driver, spec, pointer);
  };

  Arguments& arguments = launch.arguments;
  const CUdeviceptr x = plan.exchanged ? memory.b : memory.a;
  const CUdeviceptr y = plan.exchanged ? memory.a : memory.b;
  if (plan.family.epilogue.exclusive_or) {
    const LineBits of_x = MakeLineBits(plan.x, x, memory.line_bits);
    const LineBits of_y =
        MakeLineBits(plan.y, y, memory.line_bits + sizeof(int) * of_x.lines);
    launch.line_bits_arguments = {of_x, of_y};
    launch.line_bits_grid = plan.line_bits_grid;
  }
  ASSIGN_OR_RETURN(arguments.x, encode(plan.x, x));
  ASSIGN_OR_RETURN(arguments.y, encode(plan.y, y));
  if (plan.family.instruction.sparse) {
    ASSIGN_OR_RETURN(arguments.metadata,
                     encode(plan.metadata, memory.metadata));
  }
  arguments.weights = {.blocks = plan.weight_blocks,
                       .stage_shift = plan.group_stage_shift,
                       .promoted_stages = jit::PromotedStages(plan)};
  if (plan.groups_at != 0) {
    ASSIGN_OR_RETURN(arguments.metadata,
                     encode(plan.metadata, x + plan.groups_at));
  }
  // Partial products go to the workspace; the reduction writes D.
  ASSIGN_OR_RETURN(
      arguments.d,
      encode(plan.d, plan.config.split_k ? memory.partials : memory.d));
  if (jit::StagesC(plan.family, plan.config)) {
    ASSIGN_OR_RETURN(arguments.c, encode(plan.c, memory.c));
  }
  if (plan.family.epilogue.auxiliary && !plan.config.split_k) {
    ASSIGN_OR_RETURN(arguments.auxiliary, encode(plan.d, memory.auxiliary));
  }
  const int tile_rows = static_cast<int>(jit::TileRows(plan));
  const int tile_columns =
      static_cast<int>(jit::DivideUp(plan.columns, plan.config.tile_n));
  arguments.raster = RasterOf(tile_rows, tile_columns, plan.raster_group);
  SetLastTiles(plan, memory, arguments);
  // A reduction may lie anywhere.
  arguments.starts_next_early = plan.brief || plan.config.split_k;
  arguments.units = static_cast<int>(jit::Units(plan));
  arguments.turn = plan.turn;
  arguments.stages = plan.stages;
  arguments.absent_bytes = plan.absent_bytes;
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
  arguments.balance = MakeBalance(plan, arguments, memory);
  if (plan.family.sum == jit::Summation::kBlockScaled) {
    arguments.scales = MakeScales(problem, memory);
  }
  arguments.epilogue = MakeEpilogue(problem, plan, memory);

  launch.brief = plan.brief;
  launch.grid = plan.grid;
  launch.cluster = jit::ClusterCtas(plan.config);
  launch.threads = plan.threads;
  launch.shared_memory_bytes = plan.shared_memory_bytes;
  return launch;
}

absl::StatusOr<PreparedLaunch> PrepareLaunch(const DriverTable& driver,
                                             const jit::Problem& problem,
                                             const jit::Plan& plan,
                                             const KernelFunctions& functions,
                                             const LaunchMemory& memory) {
  TensorMaps none;
  return PrepareLaunch(driver, none, problem, plan, functions, memory);
}

absl::StatusOr<KernelFunctions> FunctionsOf(const Module& module,
                                            const jit::Plan& plan) {
  KernelFunctions functions;
  functions.multiply = module.function();
  if (plan.config.split_k) {
    ASSIGN_OR_RETURN(functions.reduce, module.Function(jit::kReduceSymbol));
  }
  if (plan.family.epilogue.exclusive_or) {
    ASSIGN_OR_RETURN(functions.line_bits,
                     module.Function(jit::kLineBitsSymbol));
  }
  return functions;
}

absl::Status CheckClusters(const DriverTable& driver, CUfunction function,
                           const jit::Plan& plan) {
  return CheckCluster(driver, function,
                      {.ctas = plan.grid,
                       .threads = plan.threads,
                       .shared_memory_bytes = plan.shared_memory_bytes,
                       .cluster = jit::ClusterCtas(plan.config)});
}

absl::Status Enqueue(const PreparedLaunch& launch, const Stream& stream) {
  if (launch.line_bits_grid != 0) {
    RETURN_IF_ERROR(EnqueueGrid(stream, launch.functions.line_bits,
                                {launch.line_bits_grid, kLineBitsThreads},
                                &launch.line_bits_arguments));
  }
  if (launch.grid != 0) {
    RETURN_IF_ERROR(EnqueueGrid(
        stream, launch.functions.multiply,
        {.ctas = launch.grid,
         .threads = launch.threads,
         .shared_memory_bytes = launch.shared_memory_bytes,
         .cluster = launch.cluster,
         .start = launch.brief ? Start::kAnywhere : Start::kInOrder,
         .starts_next_early = launch.arguments.starts_next_early != 0},
        &launch.arguments));
  }
  if (launch.reduce_grid == 0) return absl::OkStatus();
  return EnqueueGrid(
      stream, launch.functions.reduce,
      {.ctas = launch.reduce_grid,
       .threads = kReduceThreads,
       .starts_next_early = launch.reduce_arguments.starts_next_early != 0},
      &launch.reduce_arguments);
}

PreparedGroup Group(absl::Span<const PreparedLaunch> launches) {
  std::vector<const PreparedLaunch*> order;
  for (const PreparedLaunch& launch : launches) order.push_back(&launch);
  // Long units first: short ones fill the gaps at the end.
  std::ranges::stable_sort(order, std::greater<>(), [](const auto* launch) {
    return launch->arguments.part_stages;
  });
  PreparedGroup group = {
      .function = launches[0].functions.multiply,
      .grid = launches[0].grid,
      .threads = launches[0].threads,
      .shared_memory_bytes = launches[0].shared_memory_bytes};
  std::ranges::fill(group.arguments.first_unit,
                    std::numeric_limits<int>::max());
  for (const PreparedLaunch* launch : order) {
    group.arguments.first_unit[group.products.size()] = group.arguments.units;
    group.arguments.units += launch->arguments.units;
    group.products.push_back(launch->arguments);
  }
  return group;
}

absl::Status EnqueueGroup(PreparedGroup group, CUdeviceptr products,
                          const Stream& stream) {
  group.arguments.products = Typed<const Arguments>(products);
  return EnqueueGrid(stream, group.function,
                     {.ctas = group.grid,
                      .threads = group.threads,
                      .shared_memory_bytes = group.shared_memory_bytes,
                      .start = Start::kAlone,
                      .starts_next_early = false},
                     &group.arguments);
}

absl::Status EnqueuePrepare(const jit::PrepareLaunch& launch,
                            CUfunction function, const Stream& stream) {
  return EnqueueGrid(stream, function, {launch.grid, kPrepareThreads},
                     &launch.arguments);
}

}  // namespace gemmd::gpu
