#include "service/engine/cost.h"

#include <algorithm>
#include <cmath>

#include "jit/plan/launch_arithmetic.h"
#include "service/engine/sequence.h"

namespace gemmd::engine {
namespace {

// Launch, synchronisation and answer of the smallest product: some 5 us.
constexpr double kLeastCycles = 8500;
// So that sums do not overflow.
constexpr double kMostCycles = 1e15;

// The host multiplies squares of so many lines, in blocks for which it packs
// both operands (service/host/gemm.cc). What else it does takes as long as so
// many multiplications (a 2-core VM: 7 us a matrix and pass, 15 ns of both
// cores for an element of D; 1x1x2^20 takes as long as 32x32x2^20).
constexpr double kHostLines = 32;
constexpr double kHostBlock = 512;
constexpr double kHostMatrix = 30'000;
constexpr double kHostElement = 150;
constexpr double kHostFp8 = 100;  // That an element is rounded to.
constexpr double kHostActivation = 50;
constexpr double kHostPacked = 16;  // An element of A or B, for a block.
constexpr double kHostScaled = 15;  // A sum that is scaled before it is added.

double HostLines(int64_t lines) {
  return std::ceil(static_cast<double>(lines) / kHostLines) * kHostLines;
}

double HostBlocks(int64_t lines) {
  return std::ceil(static_cast<double>(lines) / kHostBlock);
}

// Of k, in one pass: what is packed, and what is multiplied. Floating types are
// packed in stages of 128 bytes and multiplied by whole instructions, which a
// little k does not fill (service/host/hopper/hopper_sums.cc).
struct HostDepths {
  double packed = 1;
  double multiplied = 1;
};

HostDepths DepthsOf(const jit::Problem& problem, const jit::Plan& plan) {
  if (!problem.reads_ab()) return {};
  const auto k = static_cast<double>(problem.k);
  const jit::Instruction& instruction = plan.family.instruction;
  if (instruction.accumulator == jit::DataType::kS32) return {k, k};
  const double of_stage = kSwizzleBytes * 8.0 / jit::BitsOf(instruction.x);
  const double of_instruction = jit::KOf(instruction);
  return {std::ceil(k / of_stage) * of_stage,
          std::ceil(k / of_instruction) * of_instruction};
}

// Of an element of D, all but its sum.
double HostElement(const jit::Problem& problem) {
  const jit::Epilogue& epilogue = problem.epilogue;
  const int results = epilogue.writes_auxiliary ? 2 : 1;
  return kHostElement + (jit::IsFp8(problem.d_type) ? results * kHostFp8 : 0) +
         (epilogue.activation != jit::Activation::kNone ? kHostActivation : 0);
}

// Of each sum, in one pass, those that are scaled.
double HostScaledSums(const jit::Plan& plan) {
  switch (plan.family.sum) {
    case jit::Summation::kBlockScaled:
      return plan.stages;
    case jit::Summation::kGroupScaled:
      return static_cast<double>(plan.stages) / jit::PromotedStages(plan) *
             plan.family.widening->stage_groups;
    default:
      return 0;
  }
}

}  // namespace

absl::Duration Work::On(const device::Description& device) const {
  return device.multiplications_per_s > 0
             ? absl::Seconds(multiplications / device.multiplications_per_s)
             : absl::Nanoseconds(cycles / kCyclesPerNs);
}

double Work::CyclesOn(const device::Description& device) const {
  return device.multiplications_per_s > 0
             ? absl::ToDoubleNanoseconds(On(device)) * kCyclesPerNs
             : cycles;
}

double HostMultiplications(const jit::Problem& problem, const jit::Plan& plan) {
  const HostDepths depths = DepthsOf(problem, plan);
  const double m = HostLines(problem.m);
  const double n = HostLines(problem.n);
  const double packed =
      (m * HostBlocks(problem.n) + n * HostBlocks(problem.m)) * depths.packed;
  const double of_pass =
      m * n * (depths.multiplied + kHostScaled * HostScaledSums(plan)) +
      kHostPacked * packed + kHostMatrix;
  return static_cast<double>(problem.batch) *
         (of_pass * plan.passes + HostElement(problem) *
                                      static_cast<double>(problem.m) *
                                      static_cast<double>(problem.n));
}

int64_t SizeOf(const Input& input) {
  if (device::IsOnDevice(input.region.get())) return 0;
  int64_t bytes = 0;
  for (const auto& piece : input.pieces) bytes += piece.size();
  return bytes;
}

int64_t ReturnedBytes(const Product& product) {
  int64_t bytes = 0;
  for (const auto result : ResultsOf(product.problem)) {
    const Destination& to = product.*result;
    if (to.tensor != nullptr || device::IsOnDevice(to.place.region.get())) {
      continue;
    }
    bytes += product.problem.d().device_bytes();
  }
  return bytes;
}

int64_t ReturnedBytes(const Sequence& sequence) {
  int64_t bytes = 0;
  for (const Product& step : sequence.steps) {
    for (const auto result : ResultsOf(step.problem)) {
      const Destination& to = step.*result;
      const device::Region* region = to.place.region.get();
      const bool leaves =
          region == nullptr ? to.is_returned : !device::IsOnDevice(region);
      if (leaves) bytes += step.problem.d().device_bytes();
    }
  }
  return bytes;
}

int64_t ProductCost(double product_cycles, const Product& product) {
  const int64_t sent =
      SizeOf(product.a) + SizeOf(product.b) + SizeOf(product.c);
  return SequenceCost(product_cycles, sent, ReturnedBytes(product));
}

int64_t SequenceCost(double product_cycles, int64_t uploaded_bytes,
                     int64_t returned_bytes) {
  return static_cast<int64_t>(
             std::min(kLeastCycles + product_cycles, kMostCycles)) +
         UploadCost(uploaded_bytes) + DownloadCost(returned_bytes);
}

}  // namespace gemmd::engine
