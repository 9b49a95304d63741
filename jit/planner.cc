#include "jit/planner.h"

#include <algorithm>
#include <cmath>

#include "jit/cost_model.h"
#include "jit/status.h"
#include "jit/tiling.h"

namespace gemmd::jit {
namespace {

constexpr int kMaxStages = 16;
// Beyond this many accumulators per thread ptxas spills.
constexpr int kMaxAccumulators = 208;

struct Shape {
  int tile_m;
  int consumers;
  Schedule schedule;
};

// How consumer warpgroups may share rows.
constexpr Shape kShapes[] = {
    {64, 1, Schedule::kCooperative},  {128, 2, Schedule::kCooperative},
    {256, 2, Schedule::kCooperative}, {64, 2, Schedule::kPingPong},
    {128, 2, Schedule::kPingPong},    {192, 2, Schedule::kPingPong},
    {256, 2, Schedule::kPingPong},
};

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The problem seen from one orientation: which operand is X, what is
// contiguous. Config and launch are still open.
Plan Orient(const Problem& problem, bool exchanged) {
  Plan plan;
  plan.exchanged = exchanged;
  plan.rows = exchanged ? problem.n : problem.m;
  plan.columns = exchanged ? problem.m : problem.n;
  plan.depth = problem.reads_ab() ? problem.k : 0;
  const Major a_major =
      problem.a_order == Order::kRowMajor ? Major::kK : Major::kMn;
  const Major b_major =
      problem.b_order == Order::kColumnMajor ? Major::kK : Major::kMn;
  const bool rows_contiguous =
      (problem.d_order == Order::kColumnMajor) != exchanged;
  plan.family = {
      .input = problem.a_type,
      .output = problem.d_type,
      .x_major = exchanged ? b_major : a_major,
      .y_major = exchanged ? a_major : b_major,
      .store = rows_contiguous ? Store::kTransposed : Store::kNormal,
      .reads_c = problem.reads_c(),
  };
  return plan;
}

// Whether the epilogue moves a tile of this width in slabs of decent size.
bool HasGoodSlabs(const Family& family, int tile_n) {
  const int bytes = SlabColumns(family, tile_n) * BytesOf(family.output);
  return family.store == Store::kTransposed
             ? tile_n <= 24 || SlabColumns(family, tile_n) >= 24
             : tile_n <= 32 || bytes >= 64;
}

// Most stages that fit, or 0 when not even two do.
int Stages(const Family& family, Config config, int limit_bytes) {
  config.stages = 0;
  const int rest = limit_bytes - SharedMemoryBytes(family, config);
  const int stages = rest / (StageBytes(family, config) + 16);
  return stages < 2 ? 0 : std::min(stages, kMaxStages);
}

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
                        int tile_n) {
  const int bytes = BytesOf(layout.type);
  const int slab = SlabColumns(family, tile_n);
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

// Rows of tiles to walk together, so that the operands of the tiles that run
// at one time are fewest bytes: group * tile_m + SMs / group * tile_n least.
int RasterGroup(const Plan& plan, const DeviceProperties& device) {
  const int64_t tile_rows = DivideUp(plan.rows, plan.config.tile_m);
  const double best = std::sqrt(static_cast<double>(device.multiprocessors) *
                                plan.config.tile_n / plan.config.tile_m);
  const int64_t groups = DivideUp(tile_rows, std::lround(std::max(best, 1.0)));
  return static_cast<int>(DivideUp(tile_rows, groups));
}

// Launch arithmetic of a plan whose config is chosen.
void Finish(const Problem& problem, const DeviceProperties& device,
            Plan& plan) {
  const Config& config = plan.config;
  const int64_t tiles = DivideUp(plan.rows, config.tile_m) *
                        DivideUp(plan.columns, config.tile_n);
  plan.grid =
      static_cast<int>(std::min<int64_t>(tiles, device.multiprocessors));
  plan.threads = Threads(config);
  plan.shared_memory_bytes = SharedMemoryBytes(plan.family, config);
  plan.raster_group = RasterGroup(plan, device);
  const MatrixLayout a = problem.a();
  const MatrixLayout b = problem.b();
  plan.x =
      OperandMap(plan.exchanged ? b : a, plan.family.x_major, config.tile_m);
  plan.y =
      OperandMap(plan.exchanged ? a : b, plan.family.y_major, config.tile_n);
  plan.c = ResultMap(problem.c(), plan.family, config.tile_n);
  plan.d = ResultMap(problem.d(), plan.family, config.tile_n);
}

std::vector<Plan> Candidates(const Problem& problem,
                             const DeviceProperties& device) {
  std::vector<Plan> candidates;
  for (const bool exchanged : {false, true}) {
    Plan plan = Orient(problem, exchanged);
    for (const Shape& shape : kShapes) {
      for (int tile_n = 8; tile_n <= 256; tile_n += 8) {
        plan.config = {.tile_m = shape.tile_m,
                       .tile_n = tile_n,
                       .tile_k = kTileK,
                       .consumers = shape.consumers,
                       .schedule = shape.schedule};
        if (Accumulators(plan.config) > kMaxAccumulators) break;
        if (!HasGoodSlabs(plan.family, tile_n)) continue;
        plan.config.stages =
            Stages(plan.family, plan.config, device.shared_memory_bytes);
        if (plan.config.stages == 0) break;
        if (shape.schedule == Schedule::kPingPong && plan.config.stages < 3) {
          continue;
        }
        plan.predicted_cycles = PredictCycles(plan, device);
        candidates.push_back(plan);
      }
    }
  }
  return candidates;
}

bool Faster(const Plan& a, const Plan& b) {
  return a.predicted_cycles < b.predicted_cycles;
}

}  // namespace

Plan ChoosePlan(const Problem& problem, const DeviceProperties& device) {
  std::vector<Plan> candidates = Candidates(problem, device);
  CHECK(!candidates.empty());
  Plan best = *std::min_element(candidates.begin(), candidates.end(), Faster);
  Finish(problem, device, best);
  return best;
}

std::vector<Plan> RankPlans(const Problem& problem,
                            const DeviceProperties& device, int count) {
  std::vector<Plan> candidates = Candidates(problem, device);
  std::stable_sort(candidates.begin(), candidates.end(), Faster);
  if (static_cast<int>(candidates.size()) > count) candidates.resize(count);
  for (Plan& plan : candidates) Finish(problem, device, plan);
  return candidates;
}

}  // namespace gemmd::jit
