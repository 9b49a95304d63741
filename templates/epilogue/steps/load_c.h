// An element of C from memory: where C is not of D's type, and in the
// reduction of a split product. Its lines run as D's do.
#pragma once

#include "epilogue/steps/step.h"
#include "ptx/convert.h"

namespace gemmd {

template <Store kStore, typename T>
struct LoadC : Step {
  template <typename V>
  void Apply(const EpilogueArguments& arguments, Element<V>& element) {
    const int64 row = Min(element.place.row, arguments.rows - 1);
    const int64 column = Min(element.place.column, arguments.columns - 1);
    const int64 line = kStore == Store::kNormal ? row : column;
    const int64 at = kStore == Store::kNormal ? column : row;
    const T* c = static_cast<const T*>(arguments.c) +
                 element.place.matrix * arguments.c_matrix;
    element.c = ptx::Widen(c[line * arguments.c_pitch + at]);
  }
};

}  // namespace gemmd
