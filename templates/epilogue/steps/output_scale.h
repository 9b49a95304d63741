// One scale of D, before it is rounded.
#pragma once

#include "epilogue/steps/step.h"

namespace gemmd {

struct OutputScale : Step {
  void Apply(const EpilogueArguments& arguments, Element<float>& element) {
    element.value *= *arguments.d_scale;
  }
};

}  // namespace gemmd
