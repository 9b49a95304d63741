// The greatest |value| of all elements so far. NaN is greater than all.
#pragma once

#include "epilogue/steps/step.h"
#include "ptx/convert.h"
#include "ptx/reduce.h"
#include "ptx/thread.h"

namespace gemmd {

class Amax : public Step {
 public:
  void Apply(const EpilogueArguments& arguments, Element<float>& element) {
    const Place& place = element.place;
    // Tiles at the edge reach past P.
    if (place.row >= arguments.rows || place.column >= arguments.columns) {
      return;
    }
    const uint32 bits = ptx::BitsOf(element.value) & 0x7fffffff;
    if (bits > largest_) largest_ = bits;
  }

  // Floats of one sign are ordered as their bits are.
  void Finish(const EpilogueArguments& arguments) {
    ptx::SyncWarp();  // Loops may have ended at different times.
    const uint32 largest = ptx::MaxOfWarp(largest_);
    if (ptx::ThreadIndex() % 32 == 0) ptx::RaiseTo(arguments.amax, largest);
  }

 private:
  uint32 largest_ = 0;
};

}  // namespace gemmd
