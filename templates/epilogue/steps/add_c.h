// beta times C, which the copy engine has staged or a step before has loaded.
#pragma once

#include "epilogue/steps/step.h"

namespace gemmd {

struct AddC : Step {
  void Apply(const EpilogueArguments& arguments, Element<float>& element) {
    element.value += arguments.beta * element.c;
  }
};

}  // namespace gemmd
