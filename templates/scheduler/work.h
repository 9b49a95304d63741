// What a CTA computes: units of work, in rounds of one for each worker, but for
// the last ones, which may be shared out to the stage (Balance). A unit is one
// tile of one P over one part of k. Units of the same P and part are
// neighbours, so that they share operands in L2. A grouped launch has the units
// of many products, each with arguments of its own. CTAs of a cluster have the
// same unit; where they share no k, a unit is as many tiles, below each other.
#pragma once

#include "common/arguments.h"
#include "common/tiling.h"
#include "common/types.h"
#include "ptx/thread.h"

namespace gemmd {

// A tile by its first row and column, of one of several matrices. Those at the
// edge may begin before a multiple of the tile: LastTileLine.
struct Tile {
  int row;
  int column;
  int matrix;
};

struct Unit {
  Tile tile;  // `matrix` is the number of the P.
  int split;  // Of k.
};

// Stages of a part of k, in order: where in k, and which planes of X and Y. All
// passes but the last go through k side by side, so that device memory is read
// once for them; the last one, of the largest terms, follows.
template <typename C>
class StageWalk {
 public:
  StageWalk(const Arguments& arguments, int first)
      : arguments_(arguments), index_(first) {}

  void Advance() { index_ += static_cast<int>(arguments_.splits.value); }

  int stage() const { return At().stage; }  // Within a pass.
  int x_plane() const { return arguments_.x_planes >> 2 * At().pass & 3; }
  int y_plane() const { return arguments_.y_planes >> 2 * At().pass & 3; }

 private:
  PassStage At() const {
    // Have one pass, and no registers for more.
    if constexpr (kWidens<C>) return {0, index_};
    return PassStageOf(index_, arguments_.passes - 1, arguments_.stages);
  }

  const Arguments& arguments_;
  int index_;  // Among those of all passes.
};

template <typename C>
using KernelArguments = If<C::kGrouped, GroupedArguments, Arguments>;

template <typename C>
class Work {
 public:
  // Of interleaved consumers, or of CTAs of a cluster, each has `part` of k, or
  // `member` of the tiles of a unit.
  explicit Work(const KernelArguments<C>& all, int part = 0, int member = 0)
      : all_(all),
        part_(part),
        member_(member),
        place_(ptx::CtaIndex() / kClusterCtas) {
    Locate();
  }

  bool done() const { return index_ >= all_.units; }
  void Advance() {
    if constexpr (C::kCluster > 1) {  // Ends with its only tile.
      index_ = all_.units;
      return;
    }
    ++step_;
    if constexpr (!C::kGrouped) {
      place_ += all_.turn;
      if (place_ >= Workers()) place_ -= Workers();
    }
    Locate();
  }

  // The product that the unit is of.
  const Arguments& product() const {
    if constexpr (C::kGrouped) {
      return all_.products[group_];
    } else {
      return all_;
    }
  }

  Unit unit() const {
    const Raster& raster = product().raster;
    const int matrix = Divide(index(), raster.tiles);
    const int count = static_cast<int>(raster.tiles.value);
    const TileIndex at = TileAt(raster, index() - matrix * count);
    const int row = at.row * C::kMulticast + member_;
    Unit unit = {{row * C::kTileM, at.column * C::kTileN, matrix}, part_};
    if constexpr (!C::kGrouped) {  // Whose largest tiles would spill registers.
      unit.tile.row = Min(unit.tile.row, product().last_row);
      unit.tile.column = Min(unit.tile.column, product().last_column);
    }
    if constexpr (C::kSplitK) {
      unit.tile.matrix = Divide(matrix, product().splits);
      unit.split = SplitOf(matrix);
    }
    return unit;
  }

  // Where the tile goes: to its P, or to one of the partial products.
  Tile target(int first_row) const {
    const Unit at = unit();
    const int partial =
        at.tile.matrix * static_cast<int>(product().splits.value) + at.split;
    return {at.tile.row + first_row, at.tile.column,
            C::kSplitK ? partial : at.tile.matrix};
  }

  // The first of the unit's stages that this CTA multiplies, and how many.
  int first_stage() const { return C::kBalanced ? first_ : 0; }
  int stages() const {
    if constexpr (C::kBalanced) return stages_;
    if constexpr (Tiling<C>::kInterleaved || C::kCluster > 1) {
      return StagesOf(part_);
    }
    if constexpr (!C::kSplitK) return product().part_stages;
    return StagesOf(SplitOf(Divide(index(), product().raster.tiles)));
  }
  // Whether another CTA has begun the unit, or will continue it.
  bool continues() const { return first_stage() != 0; }
  bool passes_on() const {
    if constexpr (!C::kBalanced) return false;
    return first_ + stages_ < product().part_stages;
  }

 private:
  static constexpr int kClusterCtas = C::kCluster * C::kMulticast;

  // A place among the stages of the units that are shared out.
  struct Place {
    int unit;
    int stage;
  };

  int StagesOf(int split) const {
    return product().part_stages + (split < product().longer_parts ? 1 : 0);
  }

  static int Workers() { return ptx::CtaCount() / kClusterCtas; }

  // Finds the unit of this step.
  void Locate() {
    if constexpr (C::kBalanced) {
      first_ = 0;
      stages_ = all_.part_stages;
      if (all_.balance.stages != 0) {
        LocateBalanced();
        return;
      }
    }
    index_ = place_ + step_ * Workers();
    // Of many products, the last whose units begin at or before this one.
    if constexpr (C::kGrouped) {
      group_ = 0;
#pragma unroll
      for (int step = kMaxGroups / 2; step > 0; step /= 2) {
        if (all_.first_unit[group_ + step] <= index_) group_ += step;
      }
    }
  }

  void LocateBalanced() {
    const Balance& balance = all_.balance;
    const Place from = PlaceOf(place_);
    const Place to = PlaceOf(place_ + 1);
    index_ = place_ + step_ * Workers();
    int step = step_ - balance.rounds;
    if (step < 0) return;
    if (to.stage != 0 && --step < 0) {
      index_ = to.unit;
      stages_ = to.stage;
      return;
    }
    const int whole = from.unit + (from.stage != 0 ? 1 : 0);
    index_ = whole + step;
    if (index_ < to.unit) return;
    index_ = all_.units;
    if (from.stage == 0 || whole + step != to.unit) return;
    index_ = from.unit;
    first_ = from.stage;
    stages_ -= from.stage;
  }

  // Where the stages of a worker begin, and those of the one before it end.
  Place PlaceOf(int worker) const {
    const Balance& balance = all_.balance;
    const int at = worker * balance.stages + Min(worker, balance.longer);
    const int of_unit = static_cast<int>(balance.unit_stages.value);
    const int unit = Divide(at, balance.unit_stages);
    const int stage = at - unit * of_unit;
    if (stage < balance.least) return {balance.first_unit + unit, 0};
    if (stage > of_unit - balance.least) {
      return {balance.first_unit + unit + 1, 0};
    }
    return {balance.first_unit + unit, stage};
  }

  // Of the unit, among those of its product.
  int index() const {
    if constexpr (C::kGrouped) {
      return index_ - all_.first_unit[group_];
    } else {
      return index_;
    }
  }

  int SplitOf(int matrix) const {
    return matrix - Divide(matrix, product().splits) *
                        static_cast<int>(product().splits.value);
  }

  const KernelArguments<C>& all_;
  const int part_;
  const int member_;
  int place_;  // In a round; in the first one, this CTA's number, or cluster's.
  int step_ = 0;
  int index_ = 0;
  int first_ = 0;
  int stages_ = 0;
  int group_ = 0;
};

}  // namespace gemmd
