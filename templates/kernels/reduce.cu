// Ends a split product: adds the partial products in ascending order, so that
// the same request gives the same bits, and takes the sums to D through the
// config's steps. Without parts it makes D of an empty product. Each thread
// makes four neighbouring elements of a line; what it writes beyond the line's
// end is padding. Grid-stride.
#include "common/arguments.h"
#include "common/types.h"
#include "epilogue/exclusive_or.h"
#include "epilogue/steps/step.h"
#include "ptx/convert.h"
#include "ptx/grid.h"
#include "ptx/memory.h"
#include "ptx/thread.h"

namespace gemmd {

template <typename T>
struct alignas(kReduceElements * sizeof(T)) Quad {
  T at[kReduceElements];
};

// Four elements of D.
struct QuadPlace {
  int matrix;
  uint32 line;
  uint32 quad;  // Of the line.
};

QuadPlace PlaceOf(const ReduceArguments& a, int index) {
  const int lines = Divide(index, a.quads);
  const int matrix = Divide(lines, a.lines);
  return {matrix, lines - matrix * a.lines.value,
          index - lines * a.quads.value};
}

// The place whose index is the sum of both places' indices, which may have
// more than 32 bits: digit by digit, with carries.
QuadPlace Add(const ReduceArguments& a, QuadPlace place,
              const QuadPlace& step) {
  place.quad += step.quad;
  place.line += step.line;
  place.matrix += step.matrix;
  if (place.quad >= a.quads.value) {
    place.quad -= a.quads.value;
    ++place.line;
  }
  if (place.line >= a.lines.value) {
    place.line -= a.lines.value;
    ++place.matrix;
  }
  return place;
}

inline float Plus(float a, float b) { return a + b; }
inline int Plus(int a, int b) {  // Sums in s32 wrap.
  return static_cast<int>(static_cast<uint32>(a) + static_cast<uint32>(b));
}

class Reduction {
 public:
  using Sum = Config::Sum;
  using Value = Config::Value;
  using Output = Config::Output;

  explicit Reduction(const ReduceArguments& arguments) : a_(arguments) {}

  void Run(int first, int step) {
    const QuadPlace stride = PlaceOf(a_, step);
    for (QuadPlace place = PlaceOf(a_, first); place.matrix < a_.matrices;
         place = gemmd::Add(a_, place, stride)) {
      Make(place.matrix, place.line, int64{place.quad} * kReduceElements);
    }
    before_.Finish(a_.epilogue);
    after_.Finish(a_.epilogue);
  }

 private:
  Quad<Sum> SumAt(int64 matrix, int64 line, int64 column) const {
    const int64 lines = a_.lines.value;
    const Sum* partial =
        static_cast<const Sum*>(a_.partials) +
        (matrix * a_.splits * lines + line) * a_.partials_pitch + column;
    Quad<Sum> sum = {};
#pragma unroll 4
    for (int split = 0; split < a_.splits; ++split) {
      const auto part = *reinterpret_cast<const Quad<Sum>*>(
          partial + split * lines * a_.partials_pitch);
#pragma unroll
      for (int j = 0; j < kReduceElements; ++j)
        sum.at[j] = Plus(sum.at[j], part.at[j]);
    }
    return sum;
  }

  void Make(int64 matrix, int64 line, int64 column) {
    const Quad<Sum> sum = SumAt(matrix, line, column);
    Quad<Output> auxiliary, d;
#pragma unroll
    for (int j = 0; j < kReduceElements; ++j) {
      const int along = static_cast<int>(column) + j;
      const int across = static_cast<int>(line);
      const bool normal = Config::kStore == Store::kNormal;
      const Place place = {normal ? across : along, normal ? along : across,
                           static_cast<int>(matrix)};
      Element<Value> element = {static_cast<Value>(sum.at[j]), Value(0), place};
      if constexpr (Config::kExclusiveOr) {
        element.value =
            static_cast<Value>(ExclusiveOr(a_.epilogue, sum.at[j], place));
      }
      before_.Apply(a_.epilogue, element);
      if constexpr (Config::kAuxiliary) {
        auxiliary.at[j] = ptx::Narrow<Output>(element.value);
      }
      after_.Apply(a_.epilogue, element);
      d.at[j] = ptx::Narrow<Output>(element.value);
    }
    const int64 at = (matrix * a_.lines.value + line) * a_.pitch + column;
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
      static_cast<int>(ptx::CtaIndex() * kReduceThreads + ptx::ThreadIndex()),
      static_cast<int>(ptx::CtaCount() * kReduceThreads));
}
