#include "jit/plan/planner.h"

#include <algorithm>

#include "jit/base/status.h"
#include "jit/plan/cost_correction.h"
#include "jit/plan/cost_model.h"
#include "jit/plan/launch_arithmetic.h"
#include "jit/plan/registers.h"
#include "jit/plan/tiling.h"

namespace gemmd::jit {
namespace {

// A ring of two is slow. (H200: of 661 problems for which one was timed it was
// best for none, and took 1.2 to 1.6 times as long as expected.)
constexpr int kMinStages = 3;
constexpr int kMaxStages = 16;
// A part of k shorter than this many stages is not worth its reduction.
constexpr int64_t kMinStagesPerPart = 4;
// Of 128 bytes of k, and of time.
constexpr int64_t kMinBalancedStages = 32;
constexpr double kMinBalancedGain = 1.2;
// Stages of a unit, and of the ring, where C is much of what is read: its slabs
// come ahead into the room that more stages would take.
constexpr int kStagesBesideC = 3;
// Plans whose predicted time is corrected.
constexpr size_t kShortlist = 64;
constexpr int64_t kMaxPartialsBytes = int64_t{256} << 20;
// CTAs of a cluster. CUDA promises eight, Hopper has sixteen.
constexpr int kClusters[] = {16, 8, 5, 4, 3, 2};
// The largest that can be, and the next: smaller ones leave SMs idle.
constexpr int kMaxClusterSizes = 3;

// Clusters that run at once. SMs lie in groups of 16 or 18, one of which may
// have half as many; a cluster is in one group, of which pairs fill each.
// (cuOccupancyMaxActiveClusters of an H200: 7 of 16 CTAs, 15 of 8, 30 of 4, 66
// of 2.)
int64_t ClustersAtOnce(const DeviceProperties& device, int cluster) {
  if (cluster == 2) return device.multiprocessors / 2;
  constexpr int kGroup = 16;
  const int whole = device.multiprocessors / kGroup - 1;
  return whole * (kGroup / cluster) + kGroup / 2 / cluster;
}

// CTAs that load Y for each other: as many as leave no SM idle.
constexpr int kMulticast = 2;
// Less of Y is not worth it. (H200: of 6 problems of that, one gained 2%.)
constexpr int kMinMulticastColumns = 17;

struct Shape {
  int tile_m;
  int consumers;
  Schedule schedule;
};

// What the plans of a problem differ in. Hundreds are considered, few of which
// are worth a whole Plan.
struct Candidate {
  bool exchanged = false;
  Config config;
  int splits = 1;
  int balanced_units = 0;
  double predicted_cycles = 0;
  double predicted_us = 0;  // Of those of the shortlist.
};

// How consumer warpgroups may share rows.
constexpr Shape kShapes[] = {
    {64, 1, Schedule::kCooperative},  {128, 2, Schedule::kCooperative},
    {256, 2, Schedule::kCooperative}, {192, 3, Schedule::kCooperative},
    {64, 2, Schedule::kPingPong},     {128, 2, Schedule::kPingPong},
    {256, 4, Schedule::kCooperative}, {64, 4, Schedule::kInterleaved},
    {64, 2, Schedule::kInterleaved},  {128, 4, Schedule::kInterleaved},
};

// Whether one operand has to be X, and that is B: what is sparse, and weights.
bool NeedsB(const Problem& problem) {
  return problem.sparse == Sparse::kB ||
         (problem.mixed() && problem.weights_are_b());
}
bool NeedsA(const Problem& problem) {
  return problem.sparse == Sparse::kA ||
         (problem.mixed() && !problem.weights_are_b());
}
bool MayOrient(const Problem& problem, bool exchanged) {
  return !(exchanged ? NeedsA(problem) : NeedsB(problem));
}

// The form that makes an operand ready for the instruction, and how it is
// then read.
Form FormOf(const Problem& problem, const Instruction& instruction,
            const MatrixLayout& stored, Major major) {
  if (!problem.reads_ab()) return Form::kStored;
  if (stored.sparse) return Form::kMetadata;
  if (problem.mixed() && BitsOf(stored.type) < BitsOf(instruction.x)) {
    return major == Major::kK ? Form::kFragments : Form::kFragmentsAcross;
  }
  if (instruction.x != stored.type && stored.type == DataType::kF32) {
    return Form::kSplit;
  }
  return major == Major::kMn && !ReadsMnMajor(instruction) ? Form::kTransposed
                                                           : Form::kStored;
}

Summation SumOf(const Problem& problem, const Instruction& instruction) {
  if (problem.quantization.group != 0) return Summation::kGroupScaled;
  if (problem.epilogue.a_scale == Extent::kBlock) {
    return Summation::kBlockScaled;
  }
  return IsFp8(instruction.x) && instruction.accumulator == DataType::kF32 &&
                 problem.precision == Precision::kDefault
             ? Summation::kPromoted
             : Summation::kDirect;
}

std::optional<Widening> WideningOf(const Problem& problem) {
  if (!problem.mixed()) return std::nullopt;
  const auto [group, zero_points] = problem.quantization;
  return Widening{
      .from = problem.weights_are_b() ? problem.b_type : problem.a_type,
      .stage_groups = group == 0 ? 0 : std::max(1, kFragmentDepth / group),
      .zero_points = zero_points};
}

TileEpilogue EpilogueOf(const Problem& problem, bool exchanged) {
  const Epilogue& asked = problem.epilogue;
  const bool rows_contiguous =
      (problem.d_order == Order::kColumnMajor) != exchanged;
  // Nothing scales an empty product.
  const auto scale = [&](Extent extent) {
    const bool applies = problem.reads_ab() && extent != Extent::kBlock;
    return applies ? extent : Extent::kNone;
  };
  TileEpilogue epilogue;
  epilogue.output = problem.d_type;
  epilogue.store = rows_contiguous ? Store::kTransposed : Store::kNormal;
  epilogue.alpha = problem.reads_ab() && problem.alpha != 1.0f;
  epilogue.reads_c = problem.reads_c();
  epilogue.c = problem.reads_c() ? problem.c_type : problem.d_type;
  epilogue.row_scale = scale(exchanged ? asked.b_scale : asked.a_scale);
  epilogue.column_scale = scale(exchanged ? asked.a_scale : asked.b_scale);
  if (asked.bias != Extent::kNone) {
    epilogue.bias = (asked.bias == Extent::kRow) != exchanged ? Side::kRows
                                                              : Side::kColumns;
  }
  epilogue.activation = asked.activation;
  epilogue.auxiliary = asked.writes_auxiliary;
  epilogue.amax = asked.measures_amax;
  epilogue.scales_output = asked.d_scale;
  epilogue.exclusive_or =
      problem.reads_ab() && problem.bit_operation == BitOperation::kXor;
  return epilogue;
}

// The problem, folded, seen from one orientation: which operand is X, what is
// contiguous. What a candidate chooses and the launch are still open.
Plan Orient(const Problem& asked, bool exchanged) {
  const Problem problem = Folded(asked);
  Plan plan;
  plan.exchanged = exchanged;
  plan.rows = exchanged ? problem.n : problem.m;
  plan.columns = exchanged ? problem.m : problem.n;
  plan.depth = problem.reads_ab() ? problem.k : 0;
  plan.batch = problem.batch;
  Instruction instruction = InstructionOf(problem.arithmetic());
  // That of a sparse product is given with its X, whichever operand it is.
  if (exchanged && !instruction.sparse) std::swap(instruction.x, instruction.y);
  Major a_major = problem.a_order == Order::kRowMajor ? Major::kK : Major::kMn;
  Major b_major =
      problem.b_order == Order::kColumnMajor ? Major::kK : Major::kMn;
  plan.a_form = FormOf(problem, instruction, problem.a(), a_major);
  plan.b_form = FormOf(problem, instruction, problem.b(), b_major);
  if (!ReadsMnMajor(instruction)) a_major = b_major = Major::kK;
  if (problem.mixed()) (exchanged ? b_major : a_major) = Major::kK;
  plan.family = {.instruction = instruction,
                 .widening = WideningOf(problem),
                 .sum = SumOf(problem, instruction),
                 .x_major = exchanged ? b_major : a_major,
                 .y_major = exchanged ? a_major : b_major,
                 .epilogue = EpilogueOf(problem, exchanged)};
  return plan;
}

Candidate CandidateOf(const Plan& plan) {
  return {.exchanged = plan.exchanged,
          .config = plan.config,
          .splits = plan.splits,
          .balanced_units = plan.balanced_units,
          .predicted_cycles = plan.predicted_cycles};
}

Plan PlanOf(const Problem& problem, const Candidate& candidate) {
  Plan plan = Orient(problem, candidate.exchanged);
  plan.config = candidate.config;
  plan.splits = candidate.splits;
  plan.balanced_units = candidate.balanced_units;
  plan.predicted_cycles = candidate.predicted_cycles;
  plan.predicted_us = candidate.predicted_us;
  return plan;
}

// A C of another type than D is the reduction's job, be it of one part.
bool NeedsReduction(const Family& family) {
  return family.epilogue.c != family.epilogue.output;
}

// Whether the epilogue can move a tile of this width, and in slabs of decent
// size.
bool HasGoodSlabs(const Family& family, const Config& config) {
  const Store store = family.epilogue.store;
  const int columns = SlabColumns(family, config);
  const int bytes = BytesOf(StagedType(family, config));
  if (gemmd::SlabLineBytes(store, columns, bytes) < 16) return false;
  // Clusters have slabs for all of their CTAs, which are thus narrow.
  return config.cluster > 1 ||
         IsGoodSlab(store, config.tile_n, columns, bytes);
}

// None where sums are added up, or registers of metadata or of X used again,
// when an instruction has ended.
int GroupsInFlight(const Family& family) {
  return family.sum != Summation::kDirect || family.instruction.sparse ||
                 family.widening
             ? 0
             : 1;
}

// Most stages that fit, or 0 when no ring has two.
int Stages(const Family& family, Config config, int limit_bytes) {
  config.stages = 0;
  const int rings =
      config.schedule == Schedule::kInterleaved ? config.consumers : 1;
  const int rest =
      limit_bytes - SharedMemoryBytes(family, config, kSlabBuffers);
  const int stages = rest / (StageBytes(family, config) + 16) / rings;
  return stages < 2 ? 0 : std::min(stages, kMaxStages) * rings;
}

// Completes `plan` with the most stages that fit and its predicted time, and
// appends it when it is usable.
void Consider(Plan& plan, const DeviceProperties& device,
              std::vector<Candidate>& candidates) {
  if (!HasRegisters(plan.family, plan.config)) return;
  if (!HasGoodSlabs(plan.family, plan.config)) return;
  plan.config.stages =
      Stages(plan.family, plan.config, device.shared_memory_bytes);
  if (StagesC(plan.family, plan.config) &&
      StagesOfUnit(plan) <= kStagesBesideC &&
      plan.config.schedule != Schedule::kInterleaved) {
    plan.config.stages = std::min(plan.config.stages, kStagesBesideC);
  }
  if (plan.config.stages < kMinStages) return;
  plan.config.groups_in_flight = GroupsInFlight(plan.family);
  plan.predicted_cycles = PredictCycles(plan, device);
  candidates.push_back(CandidateOf(plan));
}

// Shares the last units out to the stage, where much of the device would idle
// and units are long. (H200, 306 plans: 1.2 to 1.8 times as fast where little
// more than whole rounds is left, but slower for short k and almost full
// rounds.)
void ConsiderBalanced(Plan& plan, const DeviceProperties& device,
                      std::vector<Candidate>& candidates) {
  if (plan.family.widening || plan.config.split_k) return;
  if (StagesOfUnit(plan) < kMinBalancedStages) return;
  const double rounds = Waves(plan, device);
  plan.config.balanced = true;
  plan.balanced_units = BalancedUnits(plan, device);
  if (plan.balanced_units != 0 &&
      rounds >= kMinBalancedGain * Waves(plan, device)) {
    Consider(plan, device, candidates);
  }
  plan.config.balanced = false;
  plan.balanced_units = 0;
}

// Splits k into at most `parts` equal parts.
void ConsiderParts(Plan plan, int64_t stages, int64_t parts,
                   const DeviceProperties& device,
                   std::vector<Candidate>& candidates) {
  plan.splits = static_cast<int>(DivideUp(stages, DivideUp(stages, parts)));
  if (4 * plan.rows * plan.columns * plan.batch * plan.splits >
      kMaxPartialsBytes) {
    return;
  }
  plan.config.split_k = true;
  Consider(plan, device, candidates);
}

// Splits k so that one wave of CTAs has work for all SMs, or for half of them
// and less to add up.
void ConsiderSplits(const Plan& plan, const DeviceProperties& device,
                    std::vector<Candidate>& candidates) {
  const int64_t stages = StagesOfUnit(plan);
  const int64_t most =
      std::min(device.multiprocessors / plan.config.multicast / Tiles(plan),
               stages / kMinStagesPerPart);
  if (most >= 2) ConsiderParts(plan, stages, most, device, candidates);
  if (most >= 4) ConsiderParts(plan, stages, most / 2, device, candidates);
}

// Splits k among the CTAs of clusters, which end in one launch what the
// reduction ends in a second one.
void ConsiderClusters(Plan& plan, const DeviceProperties& device,
                      std::vector<Candidate>& candidates) {
  const Family& family = plan.family;
  if (family.widening || family.epilogue.reads_c ||
      family.instruction.accumulator == DataType::kF16) {
    return;
  }
  const int64_t stages = StagesOfUnit(plan);
  const int64_t units = Units(plan);
  int sizes = 0;
  for (const int cluster : kClusters) {
    if (cluster > stages || units > ClustersAtOnce(device, cluster)) continue;
    if (++sizes > kMaxClusterSizes) break;
    plan.splits = plan.config.cluster = cluster;
    Consider(plan, device, candidates);
  }
  plan.splits = plan.config.cluster = 1;
}

// Whether CTAs could load Y for each other, and that is much of what they load.
bool MayMulticast(const Plan& plan) {
  const Family& family = plan.family;
  return !family.widening && !family.instruction.sparse &&
         family.sum != Summation::kBlockScaled &&
         plan.rows > plan.config.tile_m &&
         plan.columns >= kMinMulticastColumns &&
         2 * plan.config.tile_n >= plan.config.tile_m;
}

// Consumers that widen wait long for each stage, so that several stages are
// better taken side by side. Each has a part of k.
void ConsiderInterleaved(Plan& plan, const DeviceProperties& device,
                         std::vector<Candidate>& candidates) {
  if (!plan.family.widening || NeedsReduction(plan.family)) return;
  const int64_t stages = DivideUp(DepthBytes(plan), kSwizzleBytes);
  if (stages < kMinStagesPerPart * plan.config.consumers) return;
  plan.splits = plan.config.consumers;
  Consider(plan, device, candidates);
  plan.splits = 1;
}

// Only the reduction of such a cubin runs: any config will do.
Plan EmptyProduct(const Problem& problem, const DeviceProperties& device,
                  int tile_n) {
  Plan plan = Orient(problem, NeedsB(problem));
  plan.splits = 0;
  plan.config = {.tile_m = 64,
                 .tile_n = tile_n,
                 .consumers = 1,
                 .schedule = Schedule::kCooperative,
                 .groups_in_flight = GroupsInFlight(plan.family),
                 .split_k = true};
  plan.predicted_cycles = PredictCycles(plan, device);
  return plan;
}

std::vector<Candidate> Candidates(const Problem& problem,
                                  const DeviceProperties& device) {
  if (!problem.reads_ab()) {
    // A second one for when the first is refused by the compiler.
    return {CandidateOf(EmptyProduct(problem, device, 16)),
            CandidateOf(EmptyProduct(problem, device, 32))};
  }
  std::vector<Candidate> candidates;
  for (const bool exchanged : {false, true}) {
    if (!MayOrient(problem, exchanged)) continue;
    Plan plan = Orient(problem, exchanged);
    const bool scaled = plan.family.sum == Summation::kBlockScaled;
    // Its kernels take A's scales by row.
    if (scaled && exchanged) continue;
    // The order in which clamped sums are made shows in the result.
    const bool splits = !problem.invariant && !problem.clamps;
    for (const Shape& shape : kShapes) {
      for (int tile_n = 8; tile_n <= 256; tile_n += 8) {
        if (!IsLegalN(plan.family.instruction, tile_n)) continue;
        plan.config = {.tile_m = shape.tile_m,
                       .tile_n = tile_n,
                       .consumers = shape.consumers,
                       .schedule = shape.schedule};
        if (scaled && kScaleLines % tile_n != 0) continue;
        if (shape.schedule == Schedule::kInterleaved) {
          if (splits) ConsiderInterleaved(plan, device, candidates);
          continue;
        }
        plan.config.split_k = NeedsReduction(plan.family);
        const bool parts = splits && shape.schedule == Schedule::kCooperative;
        Consider(plan, device, candidates);
        ConsiderBalanced(plan, device, candidates);
        if (parts) {
          ConsiderClusters(plan, device, candidates);
          ConsiderSplits(plan, device, candidates);
        }
        if (!MayMulticast(plan)) continue;
        plan.config.multicast = kMulticast;
        Consider(plan, device, candidates);
        ConsiderBalanced(plan, device, candidates);
        if (parts) ConsiderSplits(plan, device, candidates);
      }
    }
  }
  return candidates;
}

}  // namespace

Plan ChoosePlan(const Problem& problem, const DeviceProperties& device) {
  const std::vector<Plan> plans = RankPlans(problem, device, 1);
  CHECK(!plans.empty());
  return plans.front();
}

std::optional<Plan> PlanWith(const Problem& problem,
                             const DeviceProperties& device,
                             const Family& family, const Config& config) {
  if (SharesK(config)) return std::nullopt;
  std::optional<Plan> best;
  for (const bool exchanged : {false, true}) {
    if (!MayOrient(problem, exchanged)) continue;
    Plan plan = Orient(problem, exchanged);
    if (plan.family != family) continue;
    plan.config = config;
    plan.balanced_units = BalancedUnits(plan, device);
    plan.predicted_cycles = PredictCycles(plan, device);
    if (!best || plan.predicted_cycles < best->predicted_cycles) best = plan;
  }
  if (best) CompletePlan(problem, device, *best);
  return best;
}

std::vector<Plan> UnsplitPlans(const Problem& problem,
                               const DeviceProperties& device) {
  std::vector<Plan> plans;
  for (const Candidate& candidate : Candidates(problem, device)) {
    const Config& config = candidate.config;
    if (SharesK(config) || config.multicast > 1 || config.balanced) continue;
    plans.push_back(PlanOf(problem, candidate));
  }
  return plans;
}

// The cost model is quick and coarse; its correction, which is not, decides
// among those that the model finds good.
std::vector<Plan> RankPlans(const Problem& problem,
                            const DeviceProperties& device, int count) {
  const auto first = [](std::vector<Candidate>& all, size_t most) {
    return all.begin() + static_cast<ptrdiff_t>(std::min(most, all.size()));
  };
  const auto wanted = static_cast<size_t>(count);
  std::vector<Candidate> best = Candidates(problem, device);
  const auto end = first(best, std::max(kShortlist, wanted));
  std::ranges::nth_element(best, end, {}, &Candidate::predicted_cycles);
  best.erase(end, best.end());
  for (Candidate& candidate : best) {
    candidate.predicted_us =
        PredictMicroseconds(PlanOf(problem, candidate), device);
  }
  std::ranges::sort(best, {}, &Candidate::predicted_us);
  best.erase(first(best, wanted), best.end());
  std::vector<Plan> plans;
  plans.reserve(best.size());
  for (const Candidate& candidate : best) {
    plans.push_back(PlanOf(problem, candidate));
    CompletePlan(problem, device, plans.back());
  }
  return plans;
}

}  // namespace gemmd::jit
