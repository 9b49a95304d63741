// Takes sums to elements of D, through the config's steps.
#pragma once

#include "common/tiling.h"
#include "epilogue/exclusive_or.h"
#include "epilogue/steps/step.h"
#include "pipeline/sum.h"
#include "scheduler/work.h"

namespace gemmd {

template <IsConfig C>
class Finish {
 public:
  using Value = typename Tiling<C>::Value;

  // The patch whose first element is at `at`; with `whole` for D, else for
  // the auxiliary output. Partial sums stay as they are.
  Patch<Value> operator()(const EpilogueArguments& arguments,
                          const Patch<typename C::Sum>& sums,
                          const Patch<Value>& c, Tile at, bool whole) {
    Patch<Value> result;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const Place place = {at.row + 8 * half, at.column + i, at.matrix};
        Element<Value> element = {static_cast<Value>(sums.at[half][i]),
                                  c.at[half][i], place};
        if constexpr (!C::kSplitK) {
          if constexpr (C::kExclusiveOr) {
            element.value = static_cast<Value>(
                ExclusiveOr(arguments, sums.at[half][i], place));
          }
          before_.Apply(arguments, element);
          if (whole) after_.Apply(arguments, element);
        }
        result.at[half][i] = element.value;
      }
    }
    return result;
  }

  // By every thread, after its last patch.
  void End(const EpilogueArguments& arguments) {
    if constexpr (!C::kSplitK) {
      before_.Finish(arguments);
      after_.Finish(arguments);
    }
  }

 private:
  typename C::Before before_;
  typename C::After after_;
};

}  // namespace gemmd
