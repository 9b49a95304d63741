// alpha times the sum.
#pragma once

#include "epilogue/steps/step.h"

namespace gemmd {

struct Alpha : Step {
  void Apply(const EpilogueArguments& arguments, Element<float>& element) {
    element.value *= arguments.alpha;
  }
};

}  // namespace gemmd
