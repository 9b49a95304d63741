#include "service/engine/cost.h"

#include <algorithm>
#include <cmath>

#include "service/engine/sequence.h"

namespace gemmd::engine {
namespace {

// Launch, synchronisation and answer of the smallest product: some 5 us.
constexpr double kLeastCycles = 8500;
// So that sums do not overflow.
constexpr double kMostCycles = 1e15;

// The host multiplies squares of so many lines, and what a matrix and an
// element of D take besides is as long as so many multiplications (a 2-core VM:
// 7 us, and 15 ns of both cores; 1x1x2^20 takes as long as 32x32x2^20).
constexpr double kHostLines = 32;
constexpr double kHostMatrix = 30'000;
constexpr double kHostElement = 150;

double HostLines(int64_t lines) {
  return std::ceil(static_cast<double>(lines) / kHostLines) * kHostLines;
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
  const double depth = problem.reads_ab() ? static_cast<double>(problem.k) : 1;
  return static_cast<double>(problem.batch) *
         (HostLines(problem.m) * HostLines(problem.n) * depth * plan.passes +
          kHostElement * static_cast<double>(problem.m) *
              static_cast<double>(problem.n) +
          kHostMatrix);
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
