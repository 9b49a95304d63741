// Ends a split product: adds the partial products in ascending order, so that
// the same request gives the same bits, and takes the sums to D through the
// config's steps. Without parts it makes D of an empty product. Each thread
// makes four neighbouring elements of a line; what it writes beyond the line's
// end is padding. Grid-stride.
#include "common/arguments.h"
#include "common/types.h"
#include "epilogue/steps/step.h"
#include "ptx/convert.h"
#include "ptx/grid.h"
#include "ptx/memory.h"
#include "ptx/thread.h"

namespace gemmd {

constexpr int kQuad = 4;

template <typename T>
struct alignas(kQuad * sizeof(T)) Quad {
  T at[kQuad];
};

class Reduction {
 public:
  using Sum = Config::Sum;
  using Value = Config::Value;
  using Output = Config::Output;

  explicit Reduction(const ReduceArguments& arguments) : a_(arguments) {}

  void Run(int64 first, int64 step) {
    const int64 quads = (a_.width + kQuad - 1) / kQuad;
    const int64 per_matrix = quads * a_.lines;
    for (int64 i = first; i < per_matrix * a_.matrices; i += step) {
      const int64 matrix = i / per_matrix;
      const int64 line = i % per_matrix / quads;
      Make(matrix, line, i % quads * kQuad);
    }
    before_.Finish(a_.epilogue);
    after_.Finish(a_.epilogue);
  }

 private:
  Quad<Sum> Add(int64 matrix, int64 line, int64 column) const {
    const Sum* partial =
        static_cast<const Sum*>(a_.partials) +
        (matrix * a_.splits * a_.lines + line) * a_.partials_pitch + column;
    Quad<Sum> sum = {};
#pragma unroll 4
    for (int split = 0; split < a_.splits; ++split) {
      const auto part = *reinterpret_cast<const Quad<Sum>*>(
          partial + split * a_.lines * a_.partials_pitch);
#pragma unroll
      for (int j = 0; j < kQuad; ++j) sum.at[j] += part.at[j];
    }
    return sum;
  }

  void Make(int64 matrix, int64 line, int64 column) {
    const Quad<Sum> sum = Add(matrix, line, column);
    Quad<Output> auxiliary, d;
#pragma unroll
    for (int j = 0; j < kQuad; ++j) {
      const int along = static_cast<int>(column) + j;
      const int across = static_cast<int>(line);
      const bool normal = Config::kStore == Store::kNormal;
      Element<Value> element = {
          static_cast<Value>(sum.at[j]),
          Value(0),
          {normal ? across : along, normal ? along : across,
           static_cast<int>(matrix)}};
      before_.Apply(a_.epilogue, element);
      if constexpr (Config::kAuxiliary) {
        auxiliary.at[j] = ptx::Narrow<Output>(element.value);
      }
      after_.Apply(a_.epilogue, element);
      d.at[j] = ptx::Narrow<Output>(element.value);
    }
    const int64 at = (matrix * a_.lines + line) * a_.pitch + column;
    if constexpr (Config::kAuxiliary) Put(a_.auxiliary, at, auxiliary);
    Put(a_.d, at, d);
  }

  static void Put(void* to, int64 at, const Quad<Output>& quad) {
    *reinterpret_cast<Quad<Output>*>(static_cast<Output*>(to) + at) = quad;
  }

  const ReduceArguments& a_;
  Config::Before before_;
  Config::After after_;
};

}  // namespace gemmd

extern "C" __global__ void __launch_bounds__(gemmd::kReduceThreads)
    gemmd_reduce(const __grid_constant__ gemmd::ReduceArguments arguments) {
  using namespace gemmd;
  ptx::LaunchDependents();
  ptx::WaitForDependencies();
  Reduction(arguments).Run(
      int64{ptx::CtaIndex()} * kReduceThreads + ptx::ThreadIndex(),
      int64{ptx::CtaCount()} * kReduceThreads);
}
