// The sum plus C in s32, exactly, then wrapped around or clamped. Takes the
// place of AddC where D is s32; alpha and beta are then one.
#pragma once

#include "epilogue/steps/step.h"

namespace gemmd {

template <bool kClamps>
struct Combine : Step {
  void Apply(const EpilogueArguments&, Element<int>& element) {
    constexpr int64 kMost = 0x7fffffff;
    constexpr int64 kLeast = -kMost - 1;
    int64 exact = int64{element.value} + element.c;
    if constexpr (kClamps) {
      exact = exact > kMost ? kMost : exact < kLeast ? kLeast : exact;
    }
    element.value = static_cast<int>(static_cast<uint32>(exact));
  }
};

}  // namespace gemmd
