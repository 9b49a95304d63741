// The order in which tiles are computed. CTAs take tiles round robin, so that
// neighbours in this order run at the same time and share operands in L2:
// groups of a few tile rows are walked column by column.
#pragma once

#include "common/types.h"

namespace gemmd {

struct Tile {
  int row;     // First row of P.
  int column;  // First column of P.
};

// A range of k in stages.
struct Part {
  int first;
  int count;
};

// Part `index` of `parts` nearly equal parts of `stages`.
inline Part PartOf(int stages, int parts, int index) {
  const int length = DivideUp(stages, parts);
  const int first = Min(index * length, stages);
  return {first, Min(length, stages - first)};
}

template <int kTileM, int kTileN>
class Raster {
 public:
  Raster(int rows, int columns, int group)
      : tile_rows_(DivideUp(rows, kTileM)),
        tile_columns_(DivideUp(columns, kTileN)),
        group_(group) {}

  int count() const { return tile_rows_ * tile_columns_; }

  Tile At(int index) const {
    const int per_group = group_ * tile_columns_;
    const int first_row = index / per_group * group_;
    const int group_rows = Min(group_, tile_rows_ - first_row);
    const int rest = index % per_group;
    return {(first_row + rest % group_rows) * kTileM,
            rest / group_rows * kTileN};
  }

 private:
  const int tile_rows_;
  const int tile_columns_;
  const int group_;
};

}  // namespace gemmd
