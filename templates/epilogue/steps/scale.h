// Multiplies by the product of one or two scales. That the scales meet first
// makes it the same whichever operand is X.
#pragma once

#include "epilogue/steps/step.h"

namespace gemmd {

// A scale for each row of P or each column, ...
template <Side kSide>
struct EachOf {
  static float At(const EpilogueArguments& arguments, const Place& place) {
    return kSide == Side::kRows
               ? ValueAt(arguments.row_scale, place.row, arguments.rows)
               : ValueAt(arguments.column_scale, place.column,
                         arguments.columns);
  }
};

// ... or one for all.
template <Side kSide>
struct OneForAll {
  static float At(const EpilogueArguments& arguments, const Place&) {
    return kSide == Side::kRows ? *arguments.row_scale
                                : *arguments.column_scale;
  }
};

template <typename... F>
struct Scale : Step {
  void Apply(const EpilogueArguments& arguments, Element<float>& element) {
    element.value *= (F::At(arguments, element.place) * ...);
  }
};

}  // namespace gemmd
