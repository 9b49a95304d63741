#include "jit/plan/cost_correction.h"

#include <algorithm>
#include <cmath>

#include "jit/plan/cost_model.h"
#include "jit/plan/cost_weights.h"
#include "jit/plan/launch_arithmetic.h"
#include "jit/plan/tiling.h"
#include "jit/problem/layout.h"

namespace gemmd::jit {
namespace {

// Rows that one pass over the columns spans: see RasterGroup.
constexpr double kGroupRows = 2048;
constexpr double kLineBytes = 128;  // Of the L2 cache.
// Beyond this, lines of a matrix are one run for the memory.
constexpr double kLongRunBytes = 1024;

// A start and microseconds per thousand cycles that the network corrects.
constexpr double kStartUs = 2;
constexpr double kCyclesPerUs = 1750;

// That are added to a unit between its load and its store, which would else take
// most of the network's time.
constexpr int kTermsAtOnce = 5;
static_assert(kCostTerms % kTermsAtOnce == 0);

float Log(double value) {
  return static_cast<float>(std::log2(std::max(value, 1e-9)));
}

// How the stages of one operand come from memory.
struct Traffic {
  double requests;  // Lines of boxes a stage.
  double bytes;     // A stage, without what is out of bounds.
  double distinct;  // Lines of the L2 cache a stage.
  double run;       // Bytes that follow each other in memory.
};

double Pitch(double width_bytes) {
  return static_cast<double>(PitchOf(static_cast<int64_t>(width_bytes)));
}

// `extent` lines of the operand, `lines` of which are in a tile of `tile`.
Traffic TrafficOf(Major major, double extent, double lines, double tile,
                  double depth_bytes, double element_bytes) {
  const double span = std::min(kLineBytes, depth_bytes);
  if (major == Major::kK) {
    // Short lines share those of the cache.
    const double pitch = std::min(kLineBytes, Pitch(depth_bytes));
    return {lines, lines * span, std::max(1.0, lines * pitch / kLineBytes),
            depth_bytes <= kLineBytes ? kLongRunBytes : kLineBytes};
  }
  const double pitch = Pitch(extent * element_bytes);
  const double along_k = span / element_bytes;  // Lines of k in a stage.
  const double slab = kLineBytes / element_bytes;
  const double slabs =
      std::min(std::ceil(lines / slab), std::ceil(tile / slab));
  const double requests = slabs * along_k;
  const double run = std::min(lines * element_bytes, pitch);
  return {requests, requests * std::min(lines, slab) * element_bytes,
          std::max(1.0, pitch < kLineBytes ? along_k * pitch / kLineBytes
                                           : requests),
          pitch <= run ? kLongRunBytes : run};
}

// Tiles of an mn-major operand that begin within a line of the cache: their
// boxes touch one line more than they have.
bool Straddles(Major major, int tile, double element_bytes) {
  return major == Major::kMn && std::fmod(tile * element_bytes, kLineBytes) > 0;
}

}  // namespace

CostTerms CostTermsOf(const Plan& plan, const DeviceProperties& device) {
  const Config& config = plan.config;
  const double element = BitsOf(plan.family.instruction.x) / 8.0;
  // Of D, and of C where that is read beside it.
  const double output = BytesOf(plan.family.epilogue.output) *
                        (plan.family.epilogue.reads_c ? 2 : 1);
  const auto rows = static_cast<double>(plan.rows);
  const auto columns = static_cast<double>(plan.columns);
  const auto batch = static_cast<double>(plan.batch);
  const double depth_bytes =
      std::max(1.0, static_cast<double>(DepthBytes(plan)));
  const int passes = plan.a_form == Form::kSplit ? kSplitPasses : 1;

  const double tile_rows =
      std::ceil(rows / (config.tile_m * config.multicast)) * config.multicast;
  const double tile_columns = std::ceil(columns / config.tile_n);
  const double tiles = tile_rows * tile_columns * batch;
  // Among CTAs.
  const double splits =
      config.split_k || config.cluster > 1 ? std::max(1, plan.splits) : 1;
  const double units = tiles * splits;
  const double ctas = std::min<double>(units, device.multiprocessors);
  const double waves = Waves(plan, device);
  const double stages =
      std::ceil(passes * std::ceil(depth_bytes / kSwizzleBytes) / splits);

  const double multiply =
      config.tile_m / kInstructionM * (kSwizzleBytes / kInstructionKBytes) *
      std::max(config.tile_n / 2.0, 16 + config.tile_n / 4.0);
  const Traffic x = TrafficOf(plan.family.x_major, rows,
                              std::min<double>(config.tile_m, rows / tile_rows),
                              config.tile_m, depth_bytes, element);
  Traffic y = TrafficOf(plan.family.y_major, columns,
                        std::min<double>(config.tile_n, columns / tile_columns),
                        config.tile_n, depth_bytes, element);

  y.requests /= config.multicast;
  y.bytes /= config.multicast;

  // CTAs that run at once and load the same tile of X, or of Y.
  const double at_once = std::min(ctas, tiles);
  const double group = std::min(
      tile_rows, std::max(1.0, std::floor(kGroupRows / config.tile_m)));
  double block_rows = std::min(at_once, group);
  const double block_columns =
      std::min(std::max(1.0, at_once / block_rows), tile_columns);
  block_rows =
      std::min(std::max(block_rows, at_once / block_columns), tile_rows);
  const double share_x = std::max(1.0, at_once / block_rows);
  const double share_y = std::max(1.0, at_once / block_columns);
  const double hot_x = share_x * x.requests / x.distinct;
  const double hot_y = share_y * y.requests / y.distinct;
  const double in_flight = std::min<double>(config.stages, stages) *
                           (x.bytes / share_x + y.bytes / share_y) * ctas;
  const double bytes = x.bytes + y.bytes;
  const double requests = x.requests + y.requests;
  const double total = stages * waves;

  return {Log(plan.predicted_cycles),
          Log(multiply),
          Log(stages),
          Log(waves),
          Log(ctas),
          Log(splits),
          config.schedule == Schedule::kPingPong ? 1.0f : 0.0f,
          Log(config.stages),
          Log(bytes),
          Log(requests),
          Log(std::max(hot_x, hot_y)),
          Log(hot_x + hot_y),
          Log((rows + columns) * depth_bytes * batch),
          Log(x.run),
          Log(y.run),
          Log(rows * columns * batch * output),
          Log(config.tile_m * config.tile_n * output),
          plan.family.epilogue.store == Store::kNormal ? 1.0f : 0.0f,
          Log(in_flight),
          Log(config.tile_m),
          Log(config.tile_n),
          static_cast<float>(config.consumers),
          plan.family.x_major == Major::kK ? 1.0f : 0.0f,
          plan.family.y_major == Major::kK ? 1.0f : 0.0f,
          Log(multiply * total),
          Log(bytes * total),
          Log(requests * total),
          Log(rows * depth_bytes * batch),
          Log(columns * depth_bytes * batch),
          Log(depth_bytes),
          Straddles(plan.family.x_major, config.tile_m, element) ? 1.0f : 0.0f,
          Straddles(plan.family.y_major, config.tile_n, element) ? 1.0f : 0.0f,
          Log(config.cluster),
          Log(config.multicast),
          plan.balanced_units != 0 ? 1.0f : 0.0f};
}

double PredictMicroseconds(const Plan& plan, const DeviceProperties& device) {
  const double uncorrected = kStartUs + plan.predicted_cycles / kCyclesPerUs;
  // Nothing was learnt of weights that are widened.
  if (plan.family.widening) return uncorrected;
  const CostTerms terms = CostTermsOf(plan, device);
  float units[kCostUnits];
  std::ranges::copy(kCostBias, units);
  for (int term = 0; term < kCostTerms; term += kTermsAtOnce) {
    for (int unit = 0; unit < kCostUnits; ++unit) {
      float sum = units[unit];
#pragma GCC unroll 5
      for (int i = term; i < term + kTermsAtOnce; ++i) {
        sum += kCostWeights[i][unit] * terms[i];
      }
      units[unit] = sum;
    }
  }
  float sum = kCostOutputBias;
  for (int unit = 0; unit < kCostUnits; ++unit) {
    sum += kCostOutput[unit] * std::max(units[unit], 0.0f);
  }
  return uncorrected * std::exp(sum);
}

}  // namespace gemmd::jit
