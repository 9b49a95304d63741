// alpha times the sum plus beta times C in s32, alpha and beta being integers
// of s32: exactly, then wrapped around or clamped. Takes the place of Alpha
// and AddC where D is s32.
#pragma once

#include "epilogue/steps/step.h"

namespace gemmd {

template <bool kClamps>
struct Combine : Step {
  void Apply(const EpilogueArguments& arguments, Element<int>& element) {
    constexpr int64 kMost = 0x7fffffff;
    constexpr int64 kLeast = -kMost - 1;
    int64 exact = int64{element.value} * static_cast<int64>(arguments.alpha) +
                  int64{element.c} * static_cast<int64>(arguments.beta);
    if constexpr (kClamps) {
      exact = exact > kMost ? kMost : exact < kLeast ? kLeast : exact;
    }
    element.value = static_cast<int>(static_cast<uint32>(exact));
  }
};

}  // namespace gemmd
