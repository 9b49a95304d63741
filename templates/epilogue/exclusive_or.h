// Counts the bits in which lines of X and Y differ, from the number of those
// that both have set, which is what the tensor core counts.
#pragma once

#include "common/arguments.h"
#include "epilogue/steps/step.h"

namespace gemmd {

// Of the element of P at `place`: |x ^ y| = |x| + |y| - 2 |x & y|.
inline int ExclusiveOr(const EpilogueArguments& arguments, int common,
                       const Place& place) {
  // Tiles at the edge reach past P.
  if (place.row >= arguments.rows || place.column >= arguments.columns) {
    return 0;
  }
  const int x =
      arguments.row_bits[place.matrix * arguments.row_bits_matrix + place.row];
  const int y =
      arguments.column_bits[place.matrix * arguments.column_bits_matrix +
                            place.column];
  return x + y - 2 * common;
}

}  // namespace gemmd
