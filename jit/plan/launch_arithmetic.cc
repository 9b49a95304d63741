#include "jit/plan/launch_arithmetic.h"

#include <algorithm>
#include <numeric>

#include "jit/plan/form.h"
#include "jit/plan/tiling.h"
#include "templates/common/arguments.h"

namespace gemmd::jit {
namespace {

// Rows of P, and bytes of X, that a raster group spans.
constexpr int64_t kMinRasterRows = 1024;
constexpr int64_t kMaxRasterRows = 2048;
constexpr int64_t kRasterBytes = int64_t{24} << 20;
// D of more bytes than L2 has place for is written in the order of its lines:
// rows of a normal store's groups, and the least of a transposed store's tiles.
constexpr int64_t kLongBytes = int64_t{40} << 20;
constexpr int64_t kNormalLongRows = 256;
constexpr int kTransposedLongTile = 128;
// Of many rows of tiles few are taken at a time where all tiles run in few
// rounds: see RasterGroup.
constexpr int64_t kManyTileRows = 12;
constexpr int64_t kFewRounds = 3;
constexpr int64_t kRowsOfOneRound = 4;
constexpr int64_t kRowsOfFewRounds = 8;

// Products of fewer cycles are brief. A grid that follows another while that
// runs finds its SMs taken, and its CTAs come to lie elsewhere than they would
// alone: where memory bounds them, up to 1.3 times as long. One that is placed
// as the other ends loses nothing, and gains less. Measured on an H200, 70
// products, time when not brief over time when brief: 1.11 in the mean below
// 4,000 cycles; from there to 10,000 1.05 to 1.11 where clusters share k (one
// 0.97), 0.91 to 1.04 elsewhere; beyond 0.82 to 1.02.
constexpr double kBriefCycles = 4000;
constexpr double kBriefSharedCycles = 10000;       // Where CTAs share k.
constexpr double kBriefInterleavedCycles = 60000;  // Or consumers do.

// So that the stages of all workers can be counted.
constexpr int64_t kMostBalancedStages = int64_t{1} << 20;

// Of what goes before and after the product.
constexpr int64_t kSmallCtasPerSm = 8;

// Six products of bf16 terms make one of f32, smallest first: planes 0, 1, 2
// are the high, middle and low parts.
constexpr struct {
  uint32_t a, b;
} kSplitTerms[] = {{2, 0}, {0, 2}, {1, 1}, {1, 0}, {0, 1}, {0, 0}};

// Bytes of an element of the map: b1 travels as bytes.
int MapBytes(DataType type) { return std::max(1, BitsOf(type) / 8); }

// Of boxes with lines of so many bytes: the least ones are not swizzled.
int SwizzleOf(int line_bytes) { return line_bytes >= 32 ? line_bytes : 0; }

// All matrices of a layout, which lie one behind the other.
TensorMapSpec Map(const MatrixLayout& layout) {
  return {.type = layout.type,
          .width = layout.width_bytes() / MapBytes(layout.type),
          .lines = layout.matrix_lines(),
          .pitch_bytes = layout.pitch_bytes(),
          .matrices = layout.count,
          .matrix_bytes = layout.matrix_lines() * layout.pitch_bytes()};
}

// A box has no more lines than the matrix: the copy engine takes longer to fill
// in zeros than to copy. (In a group the lines of another product would lie
// there, which no check could tell from this one's.)
void LeaveOutAbsentLines(int line_bytes, TensorMapSpec& map, Plan& plan) {
  if (plan.config.grouped) return;
  const auto absent =
      static_cast<int>(std::max<int64_t>(0, map.box_lines - map.lines));
  map.box_lines -= absent;
  plan.absent_bytes += absent * line_bytes;
}

// `parts` boxes make a tile of the operand.
TensorMapSpec OperandMap(const MatrixLayout& stored, Form form, Major major,
                         int lines, Plan& plan, int parts = 1) {
  TensorMapSpec map = Map(FormLayout(stored, form));
  const int span = OperandSpanBytes(major, lines);
  map.box_width = span / MapBytes(map.type);
  map.box_lines = (major == Major::kK ? lines : kSwizzleBytes / 2) / parts;
  map.swizzle_bytes = SwizzleOf(span);
  // Lines of k are multiplied: they must be zero.
  if (major == Major::kK && parts == 1) LeaveOutAbsentLines(span, map, plan);
  return map;
}

// Of the values of a sparse X.
TensorMapSpec SparseMap(const MatrixLayout& stored, int lines, Plan& plan) {
  TensorMapSpec map = Map(stored);
  map.width = stored.width() / 2;
  map.box_width = kSparseSpanBytes / MapBytes(map.type);
  map.box_lines = lines;
  map.swizzle_bytes = kSparseSpanBytes;
  LeaveOutAbsentLines(kSparseSpanBytes, map, plan);
  return map;
}

TensorMapSpec MetadataMap(const MatrixLayout& stored, int lines) {
  TensorMapSpec map = Map(FormLayout(stored, Form::kMetadata));
  map.box_width = kWarpgroupThreads * MetadataWords(BitsOf(stored.type));
  map.box_lines = lines / kInstructionM;
  return map;
}

// Of weights in fragment order: lines of all blocks, and their groups.
void FinishFragments(const MatrixLayout& stored, Form form, Plan& plan) {
  const Fragments fragments(stored, form);
  const int64_t matrix_bytes = FormLayout(stored, form).pitch_bytes();
  const int block_lines = FragmentLines(BitsOf(stored.type));
  const int tile_blocks = plan.config.tile_m / kInstructionM;
  constexpr int kWords = kFragmentLineBytes / 4;
  plan.x = {.type = DataType::kS32,
            .width = kWords,
            .lines = fragments.blocks * fragments.stages * block_lines,
            .pitch_bytes = kFragmentLineBytes,
            .matrices = stored.count,
            .matrix_bytes = matrix_bytes,
            .box_width = kWords,
            .box_lines = tile_blocks * block_lines};
  plan.weight_blocks = static_cast<int>(fragments.blocks);
  if (fragments.groups == 0) return;
  plan.groups_at = fragments.groups_at();
  const int words = static_cast<int>(fragments.group_bytes / 4);
  plan.metadata = {.type = DataType::kS32,
                   .width = words,
                   .lines = fragments.blocks * fragments.groups,
                   .pitch_bytes = fragments.group_bytes,
                   .matrices = stored.count,
                   .matrix_bytes = matrix_bytes,
                   .box_width = words,
                   .box_lines = tile_blocks * fragments.stage_groups};
  while (int64_t{kFragmentDepth} << plan.group_stage_shift <
         stored.quantization.group) {
    ++plan.group_stage_shift;
  }
}

// Of D, an auxiliary output, C or partial products. Lines end with a sector as
// far as their padding goes, which is nobody's: whoever has bytes of his own
// behind D's lines is given a copy. (An H200, 512 matrices of 120x152x32: lines
// of D have 240 bytes in 256, and take 17.7 us where those 240 are written.)
TensorMapSpec ResultMap(const MatrixLayout& layout, const Family& family,
                        const Config& config) {
  const int line_bytes = SlabLineBytes(family, config);
  const int slab = SlabColumns(family, config);
  const bool transposed = family.epilogue.store == Store::kTransposed;
  TensorMapSpec map = Map(layout);
  map.width =
      std::min(RoundUp(layout.width_bytes(), kSectorBytes), map.pitch_bytes) /
      BytesOf(layout.type);
  map.box_width = line_bytes / BytesOf(layout.type);
  map.box_lines = transposed ? slab : kInstructionM;
  map.swizzle_bytes = SwizzleOf(line_bytes);
  return map;
}

// Whether what goes through L2 is mostly D, which does not stay there.
bool MostlyWrites(const Plan& plan) {
  const int64_t d_bytes = plan.rows * plan.columns * plan.batch *
                          BytesOf(plan.family.epilogue.output);
  return !SharesK(plan.config) && d_bytes >= kLongBytes &&
         (plan.rows + plan.columns) * DepthBytes(plan) < kRasterBytes;
}

// Rows of P that share one pass over the columns: between 1024 and 2048, fewer
// when their X would not stay in L2 for the next columns (measured on an H100:
// more or fewer cost 1 to 4%). Where it is mostly written, along the lines of D
// (an H200, 264 plans of 44 problems: 2.6% less time in the mean, 16% at most;
// one plan takes 4% more).
int64_t RasterRows(const Plan& plan) {
  if (MostlyWrites(plan)) {
    if (plan.family.epilogue.store == Store::kNormal) return kNormalLongRows;
    if (plan.config.tile_m >= kTransposedLongTile) return plan.rows;
  }
  return std::clamp(kRasterBytes / std::max<int64_t>(1, DepthBytes(plan)),
                    kMinRasterRows, kMaxRasterRows);
}

// The same in rows of tiles. Groups are equal. In few rounds most tiles run at
// once, and those that read the same lines of X should begin together, as those
// of Y do (measured on an H100: what runs in one round takes 0.91 of the time
// in the mean of 89 plans, 0.67 to 1.02; in up to three 0.98 of 34, 0.88
// to 1.05; of fewer rows, small groups gain nothing).
int RasterGroup(const Plan& plan, const DeviceProperties& device) {
  const int64_t tile_rows = TileRows(plan);
  const int64_t rows_of_tile = plan.config.tile_m * plan.config.multicast;
  int64_t most = std::max<int64_t>(1, RasterRows(plan) / rows_of_tile);
  const int64_t rounds = DivideUp(Units(plan), Workers(plan, device));
  if (tile_rows >= kManyTileRows && rounds <= kFewRounds &&
      !MostlyWrites(plan)) {
    most = std::min(most, rounds == 1 ? kRowsOfOneRound : kRowsOfFewRounds);
  }
  const int64_t groups = DivideUp(tile_rows, most);
  return static_cast<int>(DivideUp(tile_rows, groups));
}

// Matrices of a batch have equal tiles. Where each worker had those of the same
// place, whose tiles are smaller at the edge would get rounds ahead of others,
// and what they share would have left L2. So in the end each has those of all
// places. (An H200, 512 matrices of 224x456x128: 40 plans take 0.93 of the time
// in the mean, 0.78 at best, and read a fifth less from device memory.)
int TurnOf(const Plan& plan, const DeviceProperties& device) {
  const int64_t workers = Workers(plan, device);
  if (plan.batch == 1 || plan.balanced_units != 0 || Units(plan) <= workers) {
    return 0;
  }
  const int64_t places = Tiles(plan) / plan.batch;
  int64_t turn = 0;
  while (std::gcd(workers + turn, places) > 1) ++turn;
  return static_cast<int>(turn % workers);
}

// The grid of a reduction onto `d`: as many lanes for the same elements as
// there are parts for and the device has room for at once. Fewer than four
// gain nothing over one, which has four loads in flight (measured: an H200).
void FinishReduction(const MatrixLayout& d, const DeviceProperties& device,
                     Plan& plan) {
  const int64_t groups = d.lines() * DivideUp(d.width(), kReduceElements);
  const int64_t room = int64_t{kReduceThreads} * device.multiprocessors;
  int bits = 0;
  while (bits < kReduceLaneBits && 2 << bits <= plan.splits &&
         groups << (bits + 1) <= room) {
    ++bits;
  }
  if (bits < kReduceLeastLaneBits) bits = 0;
  plan.reduce_lane_bits = bits;
  plan.reduce_grid = static_cast<int>(
      std::min<int64_t>(DivideUp(groups << bits, kReduceThreads),
                        kSmallCtasPerSm * device.multiprocessors));
}

double MostBriefCycles(const Config& config) {
  if (config.schedule == Schedule::kInterleaved) return kBriefInterleavedCycles;
  return SharesK(config) ? kBriefSharedCycles : kBriefCycles;
}

// The workspace of a split product.
void FinishSplit(const Problem& problem, Plan& plan) {
  const MatrixLayout d = problem.d();
  const MatrixLayout partials = {.type = StagedType(plan.family, plan.config),
                                 .order = Order::kRowMajor,
                                 .rows = d.matrix_lines(),
                                 .columns = d.width(),
                                 .count = plan.batch * plan.splits};
  plan.d = ResultMap(partials, plan.family, plan.config);
  plan.partials_bytes = partials.device_bytes();
}

// A warp counts a line.
void FinishLineBits(const DeviceProperties& device, Plan& plan) {
  constexpr int64_t kLinesPerCta = kLineBitsThreads / 32;
  const int64_t lines =
      plan.x.lines * plan.x.matrices + plan.y.lines * plan.y.matrices;
  plan.line_bits_bytes = lines * static_cast<int64_t>(sizeof(int32_t));
  plan.line_bits_grid = static_cast<int>(std::min<int64_t>(
      DivideUp(lines, kLinesPerCta), kSmallCtasPerSm * device.multiprocessors));
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

int64_t StagesOfUnit(const Plan& plan) {
  return DivideUp(DepthBytes(plan), kSwizzleBytes) *
         (plan.a_form == Form::kSplit ? kSplitPasses : 1);
}

int BalancedUnits(const Plan& plan, const DeviceProperties& device) {
  if (!plan.config.balanced) return 0;
  const int64_t workers = Workers(plan, device);
  const int64_t units = Units(plan);
  const int64_t stages = StagesOfUnit(plan);
  // Each has a unit's stages or more, and less than two.
  if (units < workers || units % workers == 0 ||
      stages < 2 * kLeastBalancedStages || stages > kMostBalancedStages) {
    return 0;
  }
  return static_cast<int>(workers + units % workers);
}

void CompletePlan(const Problem& asked, const DeviceProperties& device,
                  Plan& plan) {
  const Problem problem = Folded(asked);
  const Config& config = plan.config;
  plan.threads = Threads(config);
  plan.shared_memory_bytes = SharedMemoryBytes(plan.family, config);
  plan.raster_group = RasterGroup(plan, device);
  plan.turn = TurnOf(plan, device);
  plan.brief = plan.predicted_cycles < MostBriefCycles(config);
  if (config.split_k) FinishReduction(problem.d(), device, plan);
  if (plan.splits == 0) {
    plan.grid = 0;
    return;
  }
  // Clusters that share k end with their tile; other CTAs go on to the next.
  plan.grid = static_cast<int>(
      config.cluster > 1
          ? Units(plan) * config.cluster
          : std::min<int64_t>(Units(plan),
                              device.multiprocessors / config.multicast) *
                config.multicast);
  plan.stages = static_cast<int>(DivideUp(DepthBytes(plan), kSwizzleBytes));
  plan.absent_bytes = 0;
  SetPasses(plan);
  const MatrixLayout x = plan.exchanged ? problem.b() : problem.a();
  const MatrixLayout y = plan.exchanged ? problem.a() : problem.b();
  if (plan.family.instruction.sparse) {
    plan.x = SparseMap(x, config.tile_m, plan);
    plan.metadata = MetadataMap(x, config.tile_m);
  } else if (plan.family.widening) {
    FinishFragments(x, plan.exchanged ? plan.b_form : plan.a_form, plan);
  } else {
    plan.x = OperandMap(x, plan.exchanged ? plan.b_form : plan.a_form,
                        plan.family.x_major, config.tile_m, plan);
  }
  plan.y =
      OperandMap(y, plan.exchanged ? plan.a_form : plan.b_form,
                 plan.family.y_major, config.tile_n, plan, config.multicast);
  plan.x.rounds_tf32 = plan.y.rounds_tf32 =
      problem.a_type == DataType::kF32 && problem.precision == Precision::kTf32;
  if (plan.family.epilogue.exclusive_or) FinishLineBits(device, plan);
  if (config.split_k) {
    FinishSplit(problem, plan);
    return;
  }
  if (StagesC(plan.family, config)) {
    plan.c = ResultMap(problem.c(), plan.family, config);
  }
  plan.d = ResultMap(problem.d(), plan.family, config);
  if (plan.balanced_units != 0) {
    constexpr int64_t kWordBytes = 4;
    plan.partials_bytes =
        kWordBytes * plan.grid * config.tile_m * config.tile_n;
  }
}

}  // namespace gemmd::jit
