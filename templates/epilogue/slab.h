// A slab: kSlabColumns columns of a 64-row block of P, staged in shared memory
// as the copy engine stores it, and the exchange between it and the
// accumulator fragments of a warpgroup.
//
// Fragment of wgmma m64nN (PTX ISA, "Accumulator D"): warp w, lane l holds, for
// the group of 8 columns g, elements 4g + {0, 1} at row 16w + l/4, columns
// 8g + 2(l%4) + {0, 1}, and elements 4g + {2, 3} eight rows further down.
#pragma once

#include "common/arguments.h"
#include "common/tiling.h"
#include "ptx/convert.h"
#include "ptx/shared.h"
#include "ptx/tma.h"
#include "scheduler/raster.h"

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
  static constexpr bool kTransposed = C::kStore == Store::kTransposed;
  static constexpr int kGroups = T::kSlabColumns / 8;

  // Boxes of the copy engine: one, or for transposed f32 two of 32 rows.
  static constexpr int kBoxRows =
      kTransposed ? Min(kInstructionM, kSwizzleBytes / T::kStagedBytes)
                  : kInstructionM;
  static constexpr int kBoxes = kInstructionM / kBoxRows;
  static constexpr int kBoxBytes = T::kSlabBytes / kBoxes;

  static void Store(const TensorMap* map, Tile at, uint32 slab) {
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
      const int row = at.row + box * kBoxRows;
      ptx::StoreBox(map, kTransposed ? row : at.column,
                    kTransposed ? at.column : row, slab + box * kBoxBytes);
    }
  }

  static void Load(const TensorMap* map, Tile at, uint32 slab, uint32 barrier) {
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
      const int row = at.row + box * kBoxRows;
      ptx::LoadBox(slab + box * kBoxBytes, map, kTransposed ? row : at.column,
                   kTransposed ? at.column : row, barrier);
    }
  }

  // slab = alpha * accumulators + beta * slab, by all threads of a warpgroup.
  // `first` is the first accumulator of the slab's columns.
  template <int kCount>
  static void Exchange(const float (&accumulators)[kCount], int first,
                       float alpha, float beta, uint32 slab, int warp,
                       int lane) {
    if constexpr (T::kStagedBytes == 2) {
#pragma unroll
      for (int group = 0; group + 1 < kGroups; group += 2) {
        Exchange16<4>(accumulators, first + 4 * group, alpha, beta,
                      slab + MatrixOffset(warp, lane, group));
      }
      if constexpr (kGroups % 2 == 1) {
        Exchange16<2>(accumulators, first + 4 * (kGroups - 1), alpha, beta,
                      slab + MatrixOffset(warp, lane % 16, kGroups - 1));
      }
    } else {
#pragma unroll
      for (int i = 0; i < 2 * kGroups; ++i) {
        Exchange32(accumulators, first + 2 * i, alpha, beta, slab,
                   16 * warp + lane / 4 + 8 * (i % 2),
                   8 * (i / 2) + 2 * (lane % 4));
      }
    }
  }

 private:
  // Where `lane` addresses its row of 8 elements for two column groups.
  static uint32 MatrixOffset(int warp, int lane, int group) {
    if constexpr (kTransposed) {
      const int column = 8 * group + lane % 8 + lane / 16 * 8;
      const int chunk = 2 * warp + lane / 8 % 2;
      return Swizzle<kSwizzleBytes>(column * kSwizzleBytes + chunk * 16);
    } else {
      constexpr int kLineBytes = T::kSlabColumns * 2;
      const int row = 16 * warp + lane % 16;
      const int chunk = group + lane / 16;
      return Swizzle<kLineBytes>(row * kLineBytes + chunk * 16);
    }
  }

  // kMatrices 8x8 matrices: rows 0 to 7 and 8 to 15 of one or two groups.
  template <int kMatrices, int kCount>
  static void Exchange16(const float (&accumulators)[kCount], int first,
                         float alpha, float beta, uint32 address) {
    uint32 v[kMatrices];
    if constexpr (T::kReadsC) {
      if constexpr (kTransposed) {
        ptx::LoadMatrixTransposed(address, v);
      } else {
        ptx::LoadMatrix(address, v);
      }
    }
#pragma unroll
    for (int i = 0; i < kMatrices; ++i) {
      float low = alpha * accumulators[first + 2 * i];
      float high = alpha * accumulators[first + 2 * i + 1];
      if constexpr (T::kReadsC) {
        const ptx::Pair c = ptx::Unpack<Staged>(v[i]);
        low += beta * c.first;
        high += beta * c.second;
      }
      v[i] = ptx::Pack<Staged>(low, high);
    }
    if constexpr (kTransposed) {
      ptx::StoreMatrixTransposed(address, v);
    } else {
      ptx::StoreMatrix(address, v);
    }
  }

  // Elements (row, column) and (row, column + 1).
  template <int kCount>
  static void Exchange32(const float (&accumulators)[kCount], int first,
                         float alpha, float beta, uint32 slab, int row,
                         int column) {
    float low = alpha * accumulators[first];
    float high = alpha * accumulators[first + 1];
    const uint32 address = slab + ElementOffset(row, column);
    const uint32 next = slab + ElementOffset(row, column + 1);
    if constexpr (T::kReadsC) {
      low += beta * ptx::LoadShared(address);
      high += beta * ptx::LoadShared(next);
    }
    if constexpr (kTransposed) {
      ptx::StoreShared(address, low);
      ptx::StoreShared(next, high);
    } else {
      ptx::StoreShared(address, low, high);
    }
  }

  static uint32 ElementOffset(int row, int column) {
    if constexpr (kTransposed) {
      return row / kBoxRows * kBoxBytes +
             Swizzle<kSwizzleBytes>(column * kSwizzleBytes +
                                    row % kBoxRows * 4);
    } else {
      constexpr int kLineBytes = T::kSlabColumns * 4;
      return Swizzle<kLineBytes>(row * kLineBytes + column * 4);
    }
  }
};

}  // namespace gemmd
