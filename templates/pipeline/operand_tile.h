// One operand's part of a stage: kLines lines by 128 bytes of k in shared
// memory (64 of a sparse X), and the descriptors by which wgmma reads it. PTX
// ISA, "Shared Memory Matrix Layout" and "Matrix Descriptor Format".
//
// k-major: kLines lines of kLineBytes along k, swizzled over as many.
// mn-major, 16-bit types only: slabs of 64 lines of k, kLineBytes of mn each,
// swizzled over as many unless those are 16.
#pragma once

#include "common/arguments.h"
#include "common/tiling.h"
#include "common/types.h"
#include "ptx/tma.h"

namespace gemmd {

template <typename Element, Major kMajor, int kLines,
          int kLineBytes = OperandSpanBytes(kMajor, kLines)>
struct OperandTile {
  static constexpr bool kKMajor = kMajor == Major::kK;
  // Elements in a line: of k in a stage, of mn in a slab.
  static constexpr int kSpan = kLineBytes / sizeof(Element);
  // Of k in a stage.
  static constexpr int kDepth = kKMajor ? kSpan : kSwizzleBytes / 2;
  static constexpr int kSlabBytes = kDepth * kLineBytes;
  static constexpr int kSlabs = DivideUp(kLines, kSpan);
  static constexpr int kBytes =
      kKMajor ? kLines * kLineBytes : OperandTileBytes(kMajor, kLines);
  static_assert(kBytes % 1024 == 0);
  static_assert(kKMajor || sizeof(Element) == 2);
  static_assert(!kKMajor || kLineBytes == kSwizzleBytes ||
                kLineBytes == kSparseSpanBytes);

  // Copies lines [line, line + kLines) of the given stage of k of a matrix.
  static void Load(uint32 to, const TensorMap* map, int line, int stage,
                   int matrix, uint32 barrier) {
    const int k = stage * kDepth;
    if constexpr (kKMajor) {
      ptx::LoadBox(to, map, k, line, matrix, barrier);
    } else {
#pragma unroll
      for (int slab = 0; slab < kSlabs; ++slab) {
        ptx::LoadBox(to + slab * kSlabBytes, map, line + slab * kSpan, k,
                     matrix, barrier);
      }
    }
  }

  // Copies one of as many equal parts as there are CTAs in the cluster, its
  // `part`-th, into the tiles of all of them.
  template <int kParts>
  static void LoadPart(uint32 to, const TensorMap* map, int line, int stage,
                       int matrix, uint32 barrier, int part) {
    constexpr unsigned short kAll = (1 << kParts) - 1;
    const int k = stage * kDepth;
    if constexpr (kKMajor) {
      const int first = part * (kLines / kParts);
      ptx::LoadBoxToCtas(to + first * kLineBytes, map, k, line + first, matrix,
                         barrier, kAll);
    } else {
      const int first = part * (kDepth / kParts);
#pragma unroll
      for (int slab = 0; slab < kSlabs; ++slab) {
        ptx::LoadBoxToCtas(to + slab * kSlabBytes + first * kLineBytes, map,
                           line + slab * kSpan, k + first, matrix, barrier,
                           kAll);
      }
    }
  }

  // Descriptor of the tile at `address`. Offsets are in units of 16 bytes:
  // between groups of 8 lines (stride) and, mn-major, between slabs (leading),
  // or the other way round where nothing is swizzled.
  static uint64 Descriptor(uint32 address) {
    constexpr uint64 kSwizzle = kLineBytes == 128  ? 1
                                : kLineBytes == 64 ? 2
                                : kLineBytes == 32 ? 3
                                                   : 0;
    constexpr uint64 kGroup = 8 * kLineBytes / 16;
    constexpr uint64 kSlab = kKMajor ? 1 : kSlabBytes / 16;
    constexpr uint64 kLeading = kSwizzle == 0 ? kGroup : kSlab;
    constexpr uint64 kStride = kSwizzle == 0 ? kSlab : kGroup;
    return kSwizzle << 62 | kStride << 32 | kLeading << 16 |
           (address & 0x3ffff) >> 4;
  }

  // What to add for the `step`-th 32 bytes of k of a stage and for the block of
  // 64 lines numbered `block`.
  static constexpr uint64 Offset(int block, int step) {
    constexpr int kStepBytes =
        kKMajor ? kInstructionKBytes
                : kInstructionKBytes / int{sizeof(Element)} * kLineBytes;
    constexpr int kBlockBytes = kInstructionM * kLineBytes;
    return (step * kStepBytes + block * kBlockBytes) / 16;
  }
};

}  // namespace gemmd
