// What a CTA computes: units of work, round robin. A unit is one tile of one P
// over one part of k. Units of the same P and part are neighbours, so that
// they share operands in L2.
#pragma once

#include "common/arguments.h"
#include "common/tiling.h"
#include "common/types.h"
#include "ptx/thread.h"

namespace gemmd {

// A tile by its first row and column, of one of several matrices.
struct Tile {
  int row;
  int column;
  int matrix;
};

struct Unit {
  Tile tile;  // `matrix` is the number of the P.
  int split;  // Of k.
};

// Stages of a part of k, in order: where in k, and which planes of X and Y.
class StageWalk {
 public:
  StageWalk(const Arguments& arguments, int split)
      : arguments_(arguments), stage_(split) {
    Wrap();
  }

  void Advance() {
    stage_ += static_cast<int>(arguments_.splits.value);
    Wrap();
  }

  int stage() const { return stage_; }  // Within a pass.
  int x_plane() const { return arguments_.x_planes >> 2 * pass_ & 3; }
  int y_plane() const { return arguments_.y_planes >> 2 * pass_ & 3; }

 private:
  void Wrap() {
    while (stage_ >= arguments_.stages && pass_ + 1 < arguments_.passes) {
      stage_ -= arguments_.stages;
      ++pass_;
    }
  }

  const Arguments& arguments_;
  int stage_;
  int pass_ = 0;
};

template <typename C>
class Work {
 public:
  // Of interleaved consumers each has `part` of k.
  explicit Work(const Arguments& arguments, int part = 0)
      : arguments_(arguments), part_(part), index_(ptx::CtaIndex()) {}

  bool done() const { return index_ >= arguments_.units; }
  void Advance() { index_ += ptx::CtaCount(); }

  Unit unit() const {
    const int matrix = Divide(index_, arguments_.raster.tiles);
    const int count = static_cast<int>(arguments_.raster.tiles.value);
    const TileIndex at = TileAt(arguments_.raster, index_ - matrix * count);
    Unit unit = {{at.row * C::kTileM, at.column * C::kTileN, matrix}, part_};
    if constexpr (C::kSplitK) {
      unit.tile.matrix = Divide(matrix, arguments_.splits);
      unit.split = SplitOf(matrix);
    }
    return unit;
  }

  // Where the tile goes: to its P, or to one of the partial products.
  Tile target(int first_row) const {
    const Unit at = unit();
    const int partial =
        at.tile.matrix * static_cast<int>(arguments_.splits.value) + at.split;
    return {at.tile.row + first_row, at.tile.column,
            C::kSplitK ? partial : at.tile.matrix};
  }

  // Stages of the unit's part of k.
  int stages() const {
    if constexpr (Tiling<C>::kInterleaved) return StagesOf(part_);
    if constexpr (!C::kSplitK) return arguments_.part_stages;
    return StagesOf(SplitOf(Divide(index_, arguments_.raster.tiles)));
  }

 private:
  int StagesOf(int split) const {
    return arguments_.part_stages + (split < arguments_.longer_parts ? 1 : 0);
  }

  int SplitOf(int matrix) const {
    return matrix - Divide(matrix, arguments_.splits) *
                        static_cast<int>(arguments_.splits.value);
  }

  const Arguments& arguments_;
  const int part_;
  int index_;
};

}  // namespace gemmd
