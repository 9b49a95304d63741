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
    const Place& place = element.place;
    element.c = 0;
    // Tiles at the edge reach past P.
    if (place.row >= arguments.rows || place.column >= arguments.columns) {
      return;
    }
    const bool normal = kStore == Store::kNormal;
    const int64 line = normal ? place.row : place.column;
    const int64 at = normal ? place.column : place.row;
    const T* c = static_cast<const T*>(arguments.c) +
                 place.matrix * arguments.c_matrix;
    element.c = ptx::Widen(c[line * arguments.c_pitch + at]);
  }
};

}  // namespace gemmd
