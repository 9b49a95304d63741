// Ends a split product: adds the partial products in ascending order, so that
// the same request gives the same bits, and applies alpha, beta and C. Each
// thread makes four neighbouring elements of a line. Grid-stride.
#include "common/arguments.h"
#include "common/types.h"
#include "ptx/convert.h"
#include "ptx/grid.h"
#include "ptx/memory.h"
#include "ptx/thread.h"

namespace gemmd {

constexpr int kQuad = 4;

// Elements [column, column + 4) of a line of C, as far as they exist.
void AddC(float (&sum)[kQuad], const Config::Output* c, int count, float beta) {
#pragma unroll
  for (int i = 0; i < kQuad; ++i) {
    if (i < count) sum[i] += beta * ptx::Widen(c[i]);
  }
}

void Reduce(const ReduceArguments& a, int64 first, int64 step) {
  const int quads = DivideUp(a.width, kQuad);
  const auto* c = static_cast<const Config::Output*>(a.c);
  auto* d = static_cast<Config::Output*>(a.d);
  for (int64 i = first; i < int64{quads} * a.lines; i += step) {
    const int64 line = i / quads;
    const int column = i % quads * kQuad;
    const int count = Min(a.width - column, kQuad);
    const float* partial = a.partials + line * a.partials_pitch + column;
    float sum[kQuad] = {};
#pragma unroll 4
    for (int split = 0; split < a.splits; ++split) {
      const ptx::Word word = ptx::Load(reinterpret_cast<const ptx::Word*>(
          partial + split * a.partial_lines * a.partials_pitch));
#pragma unroll
      for (int j = 0; j < kQuad; ++j) sum[j] += ptx::AsFloat(word.part[j]);
    }
#pragma unroll
    for (float& value : sum) value *= a.alpha;
    const int64 at = line * a.pitch + column;
    if constexpr (Config::kReadsC) AddC(sum, c + at, count, a.beta);
#pragma unroll
    for (int j = 0; j < kQuad; ++j) {
      if (j < count) d[at + j] = ptx::Narrow<Config::Output>(sum[j]);
    }
  }
}

}  // namespace gemmd

extern "C" __global__ void __launch_bounds__(gemmd::kReduceThreads)
    gemmd_reduce(const __grid_constant__ gemmd::ReduceArguments arguments) {
  using namespace gemmd;
  ptx::LaunchDependents();
  ptx::WaitForDependencies();
  Reduce(arguments,
         int64{ptx::CtaIndex()} * kReduceThreads + ptx::ThreadIndex(),
         int64{ptx::CtaCount()} * kReduceThreads);
}
