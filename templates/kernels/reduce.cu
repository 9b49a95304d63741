// Ends a split product: adds the partial products in ascending order, so that
// the same request gives the same bits, and takes the sums to D through the
// config's steps. Without parts it makes D of an empty product. A group of
// lanes makes four neighbouring elements of a line: each lane loads another
// part, so that few elements of many parts do not wait for one after the other;
// one lane writes. What is written beyond the line's end is padding.
// Grid-stride; short, because most of these grids are over before their code is
// in the caches.
#include "common/arguments.h"
#include "common/plus.h"
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

class Reduction {
 public:
  using Sum = Config::Sum;
  using Value = Config::Value;
  using Output = Config::Output;

  explicit Reduction(const ReduceArguments& arguments) : a_(arguments) {}

  void Run(int first, int step) {
    const QuadPlace stride = PlaceOf(a_, step >> a_.lane_bits);
    QuadPlace place = PlaceOf(a_, first >> a_.lane_bits);
    const int lane = first & (lanes() - 1);
    // A warp stays together: its first lane has its first place.
    while (ptx::Broadcast(place.matrix < a_.matrices)) {
      const bool inside = place.matrix < a_.matrices;
      const Quad<Sum> sum = SumAt(place, lane, inside ? a_.splits : 0);
      if (inside && lane == 0) Make(place, sum);
      place = gemmd::Add(a_, place, stride);
    }
    before_.Finish(a_.epilogue);
    after_.Finish(a_.epilogue);
  }

 private:
  // Loads of parts that a lane has under way at once.
  static constexpr int kAhead = 4;
  // Of a group that is more than one lane.
  static constexpr int kLeastLanes = 1 << kReduceLeastLaneBits;

  int lanes() const { return 1 << a_.lane_bits; }

  // The sum of all parts, in every lane of the group; `last` of them exist.
  Quad<Sum> SumAt(const QuadPlace& place, int lane, int last) const {
    const int64 lines = a_.lines.value;
    const int64 stride = lines * a_.partials_pitch;  // From part to part.
    const Sum* partials =
        static_cast<const Sum*>(a_.partials) +
        (int64{place.matrix} * a_.splits * lines + place.line) *
            a_.partials_pitch +
        int64{place.quad} * kReduceElements;
    const auto load = [&](int part) {
      return *reinterpret_cast<const Quad<Sum>*>(partials + part * stride);
    };
    Quad<Sum> sum = {};
    if (a_.lane_bits == 0) {
#pragma unroll 4
      for (int part = 0; part < last; ++part) Add(sum, load(part));
      return sum;
    }
    // What is beyond the last part is +0, which changes no sum: they begin with
    // +0 and thus never are -0.
#pragma unroll 1
    for (int first = 0; first < a_.splits; first += kAhead * lanes()) {
      Quad<Sum> parts[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int part = first + i * lanes() + lane;
        parts[i] = part < last ? load(part) : Quad<Sum>{};
      }
#pragma unroll 1
      for (int i = 0; i < kAhead && first + i * lanes() < a_.splits; ++i) {
        AddOfLanes(sum, parts[0]);
#pragma unroll
        for (int j = 1; j < kAhead; ++j) parts[j - 1] = parts[j];
      }
    }
    return sum;
  }

  // Adds the part of each lane of the group, in the order of the lanes. What
  // comes from another lane takes long to come, so several are under way.
  void AddOfLanes(Quad<Sum>& sum, const Quad<Sum>& part) const {
#pragma unroll 1
    for (int from = 0; from < lanes(); from += kLeastLanes) {
      Quad<Sum> others[kLeastLanes];
#pragma unroll
      for (int i = 0; i < kLeastLanes; ++i) {
#pragma unroll
        for (int j = 0; j < kReduceElements; ++j) {
          others[i].at[j] = ptx::OfGroup(part.at[j], from + i, a_.lane_bits);
        }
      }
#pragma unroll
      for (int i = 0; i < kLeastLanes; ++i) Add(sum, others[i]);
    }
  }

  static void Add(Quad<Sum>& sum, const Quad<Sum>& part) {
#pragma unroll
    for (int j = 0; j < kReduceElements; ++j) {
      sum.at[j] = Plus(sum.at[j], part.at[j]);
    }
  }

  void Make(const QuadPlace& place, const Quad<Sum>& sum) {
    const int64 column = int64{place.quad} * kReduceElements;
    Quad<Output> auxiliary, d;
#pragma unroll
    for (int j = 0; j < kReduceElements; ++j) {
      const int along = static_cast<int>(column) + j;
      const int across = static_cast<int>(place.line);
      const bool normal = Config::kStore == Store::kNormal;
      const Place at = {normal ? across : along, normal ? along : across,
                        place.matrix};
      Element<Value> element = {static_cast<Value>(sum.at[j]), Value(0), at};
      if constexpr (Config::kExclusiveOr) {
        element.value =
            static_cast<Value>(ExclusiveOr(a_.epilogue, sum.at[j], at));
      }
      before_.Apply(a_.epilogue, element);
      if constexpr (Config::kAuxiliary) {
        auxiliary.at[j] = ptx::Narrow<Output>(element.value);
      }
      after_.Apply(a_.epilogue, element);
      d.at[j] = ptx::Narrow<Output>(element.value);
    }
    const int64 at =
        (int64{place.matrix} * a_.lines.value + place.line) * a_.pitch + column;
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
  if (arguments.starts_next_early) ptx::LaunchDependents();
  ptx::WaitForDependencies();
  Reduction(arguments).Run(
      static_cast<int>(ptx::CtaIndex() * kReduceThreads + ptx::ThreadIndex()),
      static_cast<int>(ptx::CtaCount() * kReduceThreads));
  ptx::LaunchDependents();
}
