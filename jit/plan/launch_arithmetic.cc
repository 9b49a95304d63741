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

TensorMapSpec OperandMap(const MatrixLayout& layout, Major major, int lines) {
  return {.type = layout.type,
          .width = layout.width(),
          .lines = layout.lines(),
          .pitch_bytes = layout.pitch_bytes(),
          .box_width = kSwizzleBytes / BytesOf(layout.type),
          .box_lines = major == Major::kK ? lines : kTileK,
          .swizzle_bytes = kSwizzleBytes};
}

TensorMapSpec ResultMap(const MatrixLayout& layout, const Family& family,
                        const Config& config) {
  const int bytes = BytesOf(layout.type);
  const int slab = SlabColumns(family, config);
  const bool transposed = family.store == Store::kTransposed;
  const int width =
      transposed ? std::min(kInstructionM, kSwizzleBytes / bytes) : slab;
  return {.type = layout.type,
          .width = layout.width(),
          .lines = layout.lines(),
          .pitch_bytes = layout.pitch_bytes(),
          .box_width = width,
          .box_lines = transposed ? slab : kInstructionM,
          .swizzle_bytes = width * bytes >= 32 ? width * bytes : 0};
}

// Rows of tiles that share one pass over the columns: between 1024 and 2048
// rows of P, fewer when their X would not stay in L2 for the next columns
// (measured on an H100: more or fewer cost 1 to 4%). Groups are equal.
int RasterGroup(const Plan& plan) {
  const int64_t tile_rows = DivideUp(plan.rows, plan.config.tile_m);
  const int64_t row_bytes =
      std::max<int64_t>(1, plan.depth * BytesOf(plan.family.input));
  const int64_t rows =
      std::clamp(kRasterBytes / row_bytes, kMinRasterRows, kMaxRasterRows);
  const int64_t groups = DivideUp(tile_rows, rows / plan.config.tile_m);
  return static_cast<int>(DivideUp(tile_rows, groups));
}

// The workspace and the reduction of a split product.
void FinishSplit(const Problem& problem, const DeviceProperties& device,
                 Plan& plan) {
  const Config& config = plan.config;
  const MatrixLayout d = problem.d();
  const bool transposed = plan.family.store == Store::kTransposed;
  // Whole tiles: a tile at the edge must not write into the next part.
  plan.partial_lines =
      static_cast<int>(transposed ? RoundUp(plan.columns, config.tile_n)
                                  : RoundUp(plan.rows, config.tile_m));
  const MatrixLayout partials = {.type = DataType::kF32,
                                 .order = Order::kRowMajor,
                                 .rows = plan.splits * plan.partial_lines,
                                 .columns = d.width()};
  plan.d = ResultMap(partials, plan.family, config);
  plan.partials_bytes = partials.device_bytes();
  const int64_t threads = d.lines() * DivideUp(d.width(), kReduceElements);
  plan.reduce_grid = static_cast<int>(
      std::min<int64_t>(DivideUp(threads, kReduceThreads),
                        kReduceCtasPerSm * device.multiprocessors));
}

}  // namespace

void CompletePlan(const Problem& problem, const DeviceProperties& device,
                  Plan& plan) {
  const Config& config = plan.config;
  plan.grid = static_cast<int>(
      std::min<int64_t>(Tiles(plan) * plan.splits, device.multiprocessors));
  plan.threads = Threads(config);
  plan.shared_memory_bytes = SharedMemoryBytes(plan.family, config);
  plan.raster_group = RasterGroup(plan);
  plan.overlaps_predecessor = plan.predicted_cycles < kShortCycles;
  const MatrixLayout a = problem.a();
  const MatrixLayout b = problem.b();
  plan.x =
      OperandMap(plan.exchanged ? b : a, plan.family.x_major, config.tile_m);
  plan.y =
      OperandMap(plan.exchanged ? a : b, plan.family.y_major, config.tile_n);
  if (plan.splits > 1) {
    FinishSplit(problem, device, plan);
    return;
  }
  plan.c = ResultMap(problem.c(), plan.family, config);
  plan.d = ResultMap(problem.d(), plan.family, config);
}

}  // namespace gemmd::jit
