// A value added to each row or column of P.
#pragma once

#include "epilogue/steps/step.h"

namespace gemmd {

template <Side kSide>
struct Bias : Step {
  void Apply(const EpilogueArguments& arguments, Element<float>& element) {
    element.value +=
        kSide == Side::kRows
            ? ValueAt(arguments.bias, element.place.row, arguments.rows)
            : ValueAt(arguments.bias, element.place.column, arguments.columns);
  }
};

}  // namespace gemmd
