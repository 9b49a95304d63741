#include "jit/plan/launch_arithmetic.h"

#include <algorithm>

#include "jit/plan/tiling.h"
#include "templates/common/arguments.h"

namespace gemmd::jit {
namespace {

// Rows of P, and bytes of X, that a raster group spans.
constexpr int64_t kMinRasterRows = 1024;
constexpr int64_t kMaxRasterRows = 2048;
constexpr int64_t kRasterBytes = int64_t{24} << 20;

constexpr double kShortCycles = 4000;

// Elements per thread and CTAs per SM of the reduction.
constexpr int kReduceElements = 4;
constexpr int64_t kReduceCtasPerSm = 8;

// Six products of bf16 terms make one of f32, smallest first: planes 0, 1, 2
// are the high, middle and low parts.
constexpr int kSplitPlanes = 3;
constexpr struct {
  uint32_t a, b;
} kSplitTerms[] = {{2, 0}, {0, 2}, {1, 1}, {1, 0}, {0, 1}, {0, 0}};

MatrixLayout PreparedLayout(MatrixLayout layout, Form form) {
  if (form == Form::kTransposed) {
    // The matrix's other view: its lines become contiguous along k.
    layout.order = Opposite(layout.order);
  } else if (form == Form::kSplit) {
    layout.type = DataType::kBf16;
  }
  return layout;
}

// Bytes of an element of the map: b1 travels as bytes.
int MapBytes(DataType type) { return std::max(1, BitsOf(type) / 8); }

TensorMapSpec Map(const MatrixLayout& layout, int64_t matrices) {
  return {.type = layout.type,
          .width = layout.width_bytes() / MapBytes(layout.type),
          .lines = layout.lines(),
          .pitch_bytes = layout.pitch_bytes(),
          .matrices = matrices,
          .matrix_bytes = layout.device_bytes()};
}

TensorMapSpec OperandMap(const MatrixLayout& stored, Form form,
                         int64_t matrices, Major major, int lines) {
  TensorMapSpec map = Map(PreparedLayout(stored, form),
                          matrices * (form == Form::kSplit ? kSplitPlanes : 1));
  map.box_width = kSwizzleBytes / MapBytes(map.type);
  map.box_lines = major == Major::kK ? lines : map.box_width;
  map.swizzle_bytes = kSwizzleBytes;
  return map;
}

TensorMapSpec ResultMap(const MatrixLayout& layout, int64_t matrices,
                        const Family& family, const Config& config) {
  const int line_bytes = SlabLineBytes(family, config);
  const int slab = SlabColumns(family, config);
  const bool transposed = family.epilogue.store == Store::kTransposed;
  TensorMapSpec map = Map(layout, matrices);
  map.box_width = line_bytes / BytesOf(layout.type);
  map.box_lines = transposed ? slab : kInstructionM;
  map.swizzle_bytes = line_bytes >= 32 ? line_bytes : 0;
  return map;
}

// Rows of tiles that share one pass over the columns: between 1024 and 2048
// rows of P, fewer when their X would not stay in L2 for the next columns
// (measured on an H100: more or fewer cost 1 to 4%). Groups are equal.
int RasterGroup(const Plan& plan) {
  const int64_t tile_rows = DivideUp(plan.rows, plan.config.tile_m);
  const int64_t row_bytes = std::max<int64_t>(1, DepthBytes(plan));
  const int64_t rows =
      std::clamp(kRasterBytes / row_bytes, kMinRasterRows, kMaxRasterRows);
  const int64_t groups = DivideUp(tile_rows, rows / plan.config.tile_m);
  return static_cast<int>(DivideUp(tile_rows, groups));
}

// Grid of a reduction onto `d`.
int ReduceGrid(const MatrixLayout& d, int64_t batch,
               const DeviceProperties& device) {
  const int64_t threads =
      batch * d.lines() * DivideUp(d.width(), kReduceElements);
  return static_cast<int>(
      std::min<int64_t>(DivideUp(threads, kReduceThreads),
                        kReduceCtasPerSm * device.multiprocessors));
}

// The workspace of a split product.
void FinishSplit(const Problem& problem, Plan& plan) {
  const MatrixLayout d = problem.d();
  const MatrixLayout partials = {.type = StagedType(plan.family, plan.config),
                                 .order = Order::kRowMajor,
                                 .rows = d.lines(),
                                 .columns = d.width()};
  const int64_t matrices = plan.batch * plan.splits;
  plan.d = ResultMap(partials, matrices, plan.family, plan.config);
  plan.partials_bytes = matrices * partials.device_bytes();
}

// Which planes of A and B each pass over k multiplies. The order is that of
// the problem, so that exchanged plans give the same bits.
void SetPasses(Plan& plan) {
  if (plan.a_form != Form::kSplit) return;
  plan.passes = 0;
  for (const auto& term : kSplitTerms) {
    const int shift = 2 * plan.passes++;
    plan.x_planes |= (plan.exchanged ? term.b : term.a) << shift;
    plan.y_planes |= (plan.exchanged ? term.a : term.b) << shift;
  }
}

}  // namespace

int64_t DepthBytes(const Plan& plan) {
  return (plan.depth * BitsOf(plan.family.instruction.x) + 7) / 8;
}

void CompletePlan(const Problem& problem, const DeviceProperties& device,
                  Plan& plan) {
  const Config& config = plan.config;
  plan.threads = Threads(config);
  plan.shared_memory_bytes = SharedMemoryBytes(plan.family, config);
  plan.raster_group = RasterGroup(plan);
  plan.overlaps_predecessor = plan.predicted_cycles < kShortCycles;
  if (config.split_k) {
    plan.reduce_grid = ReduceGrid(problem.d(), plan.batch, device);
  }
  if (plan.splits == 0) {
    plan.grid = 0;
    return;
  }
  plan.grid = static_cast<int>(
      std::min<int64_t>(Tiles(plan) * plan.splits, device.multiprocessors));
  plan.stages = static_cast<int>(DivideUp(DepthBytes(plan), kSwizzleBytes));
  SetPasses(plan);
  const auto matrices = [&](bool broadcast) {
    return broadcast ? int64_t{1} : plan.batch;
  };
  const auto between = [&](bool broadcast, Form form) {
    return broadcast ? 0 : form == Form::kSplit ? kSplitPlanes : 1;
  };
  TensorMapSpec& a = plan.exchanged ? plan.y : plan.x;
  TensorMapSpec& b = plan.exchanged ? plan.x : plan.y;
  const Major x_major = plan.family.x_major, y_major = plan.family.y_major;
  a = OperandMap(problem.a(), plan.a_form, matrices(problem.a_broadcast),
                 plan.exchanged ? y_major : x_major,
                 plan.exchanged ? config.tile_n : config.tile_m);
  b = OperandMap(problem.b(), plan.b_form, matrices(problem.b_broadcast),
                 plan.exchanged ? x_major : y_major,
                 plan.exchanged ? config.tile_m : config.tile_n);
  const bool rounds =
      problem.a_type == DataType::kF32 && problem.precision == Precision::kTf32;
  a.rounds_tf32 = b.rounds_tf32 = rounds;
  (plan.exchanged ? plan.y_matrices : plan.x_matrices) =
      between(problem.a_broadcast, plan.a_form);
  (plan.exchanged ? plan.x_matrices : plan.y_matrices) =
      between(problem.b_broadcast, plan.b_form);
  if (config.split_k) {
    FinishSplit(problem, plan);
    return;
  }
  if (StagesC(plan.family, config)) {
    plan.c = ResultMap(problem.c(), plan.batch, plan.family, config);
  }
  plan.d = ResultMap(problem.d(), plan.batch, plan.family, config);
}

}  // namespace gemmd::jit
