// What a config implies: sizes of tiles, stages, slabs and shared memory. The
// host's planner does the same arithmetic (jit/plan/tiling.h); a kernel refuses to
// compile when the two disagree.
#pragma once

#include "common/types.h"

namespace gemmd {

inline constexpr int kWarpgroupThreads = 128;
inline constexpr int kInstructionM = 64;
inline constexpr int kInstructionKBytes = 32;
inline constexpr int kSwizzleBytes = 128;

// A config is generated as a struct with these members.
template <typename C>
concept IsConfig = requires {
  typename C::Input;
  typename C::Output;
  { C::kTileM + C::kTileN + C::kTileK } -> SameAs<int>;
  { C::kStages + C::kConsumers } -> SameAs<int>;
  { C::kSharedMemoryBytes + 0 } -> SameAs<int>;
  { C::kSchedule == Schedule::kPingPong } -> SameAs<bool>;
  { C::kStore == Store::kNormal } -> SameAs<bool>;
  { C::kXMajor == Major::kK&& C::kYMajor == Major::kK } -> SameAs<bool>;
  { C::kReadsC&& C::kSplitK } -> SameAs<bool>;
};

template <IsConfig C>
struct Tiling {
  static constexpr bool kPingPong = C::kSchedule == Schedule::kPingPong;
  static constexpr int kThreads = kWarpgroupThreads * (1 + C::kConsumers);

  // Tiles of 64 rows that one consumer warpgroup accumulates.
  static constexpr int kBlocks =
      C::kTileM / kInstructionM / (kPingPong ? 1 : C::kConsumers);
  static constexpr int kSteps =
      C::kTileK * sizeof(typename C::Input) / kInstructionKBytes;

  // What the epilogue stages: elements of D, or partial sums in f32 that a
  // second kernel turns into them.
  template <bool kSplitK, typename Output>
  struct StagedType {
    using Type = Output;
  };
  template <typename Output>
  struct StagedType<true, Output> {
    using Type = float;
  };
  using Staged = typename StagedType<C::kSplitK, typename C::Output>::Type;
  static constexpr bool kReadsC = C::kReadsC && !C::kSplitK;

  // The epilogue moves a block in slabs of whole columns: kSlabColumns x 64
  // elements, staged in two buffers for each consumer warpgroup. A normal
  // slab's lines are rows of up to 128 bytes; a transposed slab's are columns
  // of 64 elements, split into boxes of at most 128 bytes.
  static constexpr int kStagedBytes = sizeof(Staged);
  static constexpr int kMaxSlabBytes = 104 * kSwizzleBytes;
  static constexpr int kSlabColumns =
      C::kStore == Store::kTransposed
          ? LargestDivisor(C::kTileN, 8,
                           kMaxSlabBytes / (kInstructionM * kStagedBytes))
          : PowerOfTwoDivisor(C::kTileN, kSwizzleBytes / kStagedBytes);
  static constexpr int kSlabs = C::kTileN / kSlabColumns;
  static constexpr int kSlabBytes = kSlabColumns * kInstructionM * kStagedBytes;
  static constexpr int kStagingBytes = 2 * C::kConsumers * kSlabBytes;

  static_assert(C::kTileK * sizeof(typename C::Input) == kSwizzleBytes,
                "a k-major stage line is one swizzle span");
  static_assert(C::kTileN % 8 == 0 && C::kTileN >= 8 && C::kTileN <= 256);
  static_assert(C::kTileM ==
                kInstructionM * kBlocks * (kPingPong ? 1 : C::kConsumers));
  static_assert(!kPingPong || C::kConsumers == 2);
  static_assert(kSlabBytes % 1024 == 0, "swizzled boxes start at 1024 bytes");
};

}  // namespace gemmd
