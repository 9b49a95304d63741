// A slab: kSlabColumns columns of a 64-row block of P, staged in shared memory
// as the copy engine stores it, and the exchange between it and the patches
// (pipeline/sum.h) of a warpgroup. Moves data only.
#pragma once

#include "common/arguments.h"
#include "common/tiling.h"
#include "pipeline/sum.h"
#include "ptx/convert.h"
#include "ptx/shared.h"
#include "ptx/tma.h"
#include "scheduler/work.h"

namespace gemmd {

// The copy engine permutes chunks of 16 bytes within lines of kLineBytes so
// that columns of chunks fall into different banks.
template <int kLineBytes>
constexpr uint32 Swizzle(uint32 offset) {
  return offset ^ ((offset >> 7 & (kLineBytes / 16 - 1)) << 4);
}

template <IsConfig C>
struct Slab {
  using T = Tiling<C>;
  using Staged = typename T::Staged;
  using Value = typename T::Value;
  static constexpr bool kTransposed = C::kStore == Store::kTransposed;
  static constexpr int kGroups = T::kSlabColumns / 8;

  // Boxes of the copy engine: one, or for transposed f32 two of 32 rows.
  static constexpr int kBoxRows =
      kTransposed ? T::kLineBytes / T::kStagedBytes : kInstructionM;
  static constexpr int kBoxes = kInstructionM / kBoxRows;
  static constexpr int kBoxBytes = T::kSlabBytes / kBoxes;
  // Partial products are read at once. Of elements of 16 bits it gains nothing
  // (an H200; of 32, 5% in the mean where D has more than 100 MB).
  static constexpr bool kStreams = T::kStagedBytes == 4 && !C::kSplitK;

  static void Send(const TensorMap* map, Tile at, uint32 slab) {
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
      const int row = at.row + box * kBoxRows;
      const int x = kTransposed ? row : at.column;
      const int y = kTransposed ? at.column : row;
      const uint32 from = slab + box * kBoxBytes;
      if constexpr (kStreams) {
        ptx::StoreBoxStreaming(map, x, y, at.matrix, from);
      } else {
        ptx::StoreBox(map, x, y, at.matrix, from);
      }
    }
  }

  static void Fetch(const TensorMap* map, Tile at, uint32 slab,
                    uint32 barrier) {
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
      const int row = at.row + box * kBoxRows;
      ptx::LoadBox(slab + box * kBoxBytes, map, kTransposed ? row : at.column,
                   kTransposed ? at.column : row, at.matrix, barrier);
    }
  }

  // slab = transform(patch, slab), by all threads of a warpgroup, for every
  // patch of the slab's groups of 8 columns: patch_of(group) is this thread's
  // of a group, transform(patch, c, row, column) takes the place of its first
  // element in the slab. `c` is zero unless the config stages C.
  template <typename PatchOf, typename Transform>
  static void Exchange(const PatchOf& patch_of, const Transform& transform,
                       uint32 slab, int warp, int lane) {
    if constexpr (T::kStagedBytes == 2) {
#pragma unroll
      for (int group = 0; group + 1 < kGroups; group += 2) {
        ExchangeMatrices<2>(patch_of, transform, group,
                            slab + MatrixOffset(warp, lane, group), warp, lane);
      }
      if constexpr (kGroups % 2 == 1) {
        constexpr int kLast = kGroups - 1;
        ExchangeMatrices<1>(patch_of, transform, kLast,
                            slab + MatrixOffset(warp, lane % 16, kLast), warp,
                            lane);
      }
    } else {
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        ExchangeElements(patch_of, transform, group, slab, warp, lane);
      }
    }
  }

 private:
  // Where this thread's patch of a group begins.
  static int RowOf(int warp, int lane) { return 16 * warp + lane / 4; }
  static int ColumnOf(int group, int lane) {
    return 8 * group + 2 * (lane % 4);
  }

  // Where `lane` addresses its row of 8 elements for two column groups.
  static uint32 MatrixOffset(int warp, int lane, int group) {
    if constexpr (kTransposed) {
      const int column = 8 * group + lane % 8 + lane / 16 * 8;
      const int chunk = 2 * warp + lane / 8 % 2;
      return Swizzle<T::kLineBytes>(column * T::kLineBytes + chunk * 16);
    } else {
      const int row = 16 * warp + lane % 16;
      const int chunk = group + lane / 16;
      return Swizzle<T::kLineBytes>(row * T::kLineBytes + chunk * 16);
    }
  }

  // 16-bit elements of kCount groups: two 8x8 matrices each, rows 0 to 7 and
  // 8 to 15.
  template <int kCount, typename PatchOf, typename Transform>
  static void ExchangeMatrices(const PatchOf& patch_of,
                               const Transform& transform, int first,
                               uint32 address, int warp, int lane) {
    uint32 v[2 * kCount];
    if constexpr (C::kStagesC) {
      if constexpr (kTransposed) {
        ptx::LoadMatrixTransposed(address, v);
      } else {
        ptx::LoadMatrix(address, v);
      }
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      Patch<Value> c = {};
      if constexpr (C::kStagesC) {
        const ptx::Pair above = ptx::Unpack<Staged>(v[2 * i]);
        const ptx::Pair below = ptx::Unpack<Staged>(v[2 * i + 1]);
        c = {{{above.first, above.second}, {below.first, below.second}}};
      }
      const Patch<Value> d = transform(
          patch_of(first + i), c, RowOf(warp, lane), ColumnOf(first + i, lane));
      v[2 * i] = ptx::Pack<Staged>(d.at[0][0], d.at[0][1]);
      v[2 * i + 1] = ptx::Pack<Staged>(d.at[1][0], d.at[1][1]);
    }
    if constexpr (kTransposed) {
      ptx::StoreMatrixTransposed(address, v);
    } else {
      ptx::StoreMatrix(address, v);
    }
  }

  // Elements of 32 or 8 bits, two by two.
  template <typename PatchOf, typename Transform>
  static void ExchangeElements(const PatchOf& patch_of,
                               const Transform& transform, int group,
                               uint32 slab, int warp, int lane) {
    const int row = RowOf(warp, lane);
    const int column = ColumnOf(group, lane);
    Patch<Value> c = {};
    if constexpr (C::kStagesC) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        c.at[half][0] = LoadElement(slab, row + 8 * half, column);
        c.at[half][1] = LoadElement(slab, row + 8 * half, column + 1);
      }
    }
    const Patch<Value> d = transform(patch_of(group), c, row, column);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      StorePair(slab, row + 8 * half, column, d.at[half][0], d.at[half][1]);
    }
  }

  static Value LoadElement(uint32 slab, int row, int column) {
    Staged element;
    ptx::LoadShared(slab + ElementOffset(row, column), element);
    return ptx::Widen(element);
  }

  static void StorePair(uint32 slab, int row, int column, Value first,
                        Value second) {
    const uint32 address = slab + ElementOffset(row, column);
    const uint32 next = slab + ElementOffset(row, column + 1);
    if constexpr (T::kStagedBytes == 1) {
      const uint32 pair = ptx::Pack<Staged>(first, second);
      if constexpr (kTransposed) {
        ptx::StoreShared8(address, pair);
        ptx::StoreShared8(next, pair >> 8);
      } else {
        ptx::StoreShared16(address, pair);
      }
    } else if constexpr (kTransposed) {
      ptx::StoreShared(address, first);
      ptx::StoreShared(next, second);
    } else {
      ptx::StoreShared(address, first, second);
    }
  }

  static uint32 ElementOffset(int row, int column) {
    if constexpr (kTransposed) {
      return row / kBoxRows * kBoxBytes +
             Swizzle<T::kLineBytes>(column * T::kLineBytes +
                                    row % kBoxRows * T::kStagedBytes);
    } else {
      return Swizzle<T::kLineBytes>(row * T::kLineBytes +
                                    column * T::kStagedBytes);
    }
  }
};

}  // namespace gemmd
