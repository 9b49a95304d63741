// The epilogue is a list of steps that each element takes from the sum of its
// products to its place in D. A config names the steps that it needs; only
// those are compiled. Each step is one file beside this one.
#pragma once

#include "common/arguments.h"
#include "common/types.h"

namespace gemmd {

// Where an element of P is; `matrix` is the number of the P.
struct Place {
  int row;
  int column;
  int matrix;
};

// An element on its way; V is float, or int where D is s32.
template <typename V>
struct Element {
  V value;
  V c;  // Only where the config stages C.
  Place place;
};

// Base of all steps: by default nothing remains to be done at the end.
struct Step {
  void Finish(const EpilogueArguments&) {}
};

// Of a row or column of P. Tiles at the edge reach past the last one.
inline float ValueAt(const float* values, int index, int count) {
  return index < count ? values[index] : 0.0f;
}

template <typename... S>
struct Steps : S... {
  template <typename V>
  void Apply(const EpilogueArguments& arguments, Element<V>& element) {
    (static_cast<S&>(*this).Apply(arguments, element), ...);
  }
  // By every thread, after its last element.
  void Finish(const EpilogueArguments& arguments) {
    (static_cast<S&>(*this).Finish(arguments), ...);
  }
};

}  // namespace gemmd
