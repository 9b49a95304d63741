// What a config implies, and what the kernels expect of it. The planner does
// the same arithmetic through common/geometry.h.
#pragma once

#include "common/geometry.h"
#include "common/types.h"

namespace gemmd {

// A config is generated as a struct with these members.
template <typename C>
concept IsConfig = requires {
  typename C::XElement;
  typename C::YElement;
  typename C::Weight;  // What is widened to XElement, or XElement.
  typename C::Sum;     // float or int: what the tensor core adds up.
  typename C::Output;  // Element of D.
  typename C::Value;   // float or int: what the epilogue computes in.
  typename C::Before;  // Steps from a sum to the auxiliary output.
  typename C::After;   // Steps from there to D.
  { C::kTileM + C::kTileN + C::kStages + C::kConsumers } -> SameAs<int>;
  { C::kSharedMemoryBytes + C::kGroupsInFlight } -> SameAs<int>;
  { C::kStageGroups + 0 } -> SameAs<int>;  // Scaled apart, of weights.
  { C::kSlabBuffers + 0 } -> SameAs<int>;  // Of each writer, for C and D.
  { C::kCluster + 0 } -> SameAs<int>;      // CTAs that share k of a tile.
  { C::kMulticast + 0 } -> SameAs<int>;    // CTAs that load Y for each other.
  { C::kSchedule == Schedule::kPingPong } -> SameAs<bool>;
  { C::kStore == Store::kNormal } -> SameAs<bool>;
  { C::kXMajor == Major::kK&& C::kYMajor == Major::kK } -> SameAs<bool>;
  {
    C::kSparse&& C::kPromoted&& C::kBlockScaled&& C::kStagesC&& C::kAuxiliary&&
        C::kExclusiveOr&& C::kSplitK&& C::kManySteps&& C::kZeroPoints&&
            C::kGrouped&& C::kBalanced
    } -> SameAs<bool>;
};

template <IsConfig C>
inline constexpr bool kWidens =
    !kSame<typename C::Weight, typename C::XElement>;

template <IsConfig C>
struct Tiling {
  static constexpr bool kPingPong = C::kSchedule == Schedule::kPingPong;
  static constexpr bool kInterleaved = C::kSchedule == Schedule::kInterleaved;
  static constexpr int kThreads = kWarpgroupThreads * (1 + C::kConsumers);

  // Rings of stages: one for all consumers, or one for each.
  static constexpr int kRings = kInterleaved ? C::kConsumers : 1;
  static constexpr int kRingStages = C::kStages / kRings;
  // Consumers that share the rows of a tile, and the stages of a ring.
  static constexpr int kSharers =
      C::kSchedule == Schedule::kCooperative ? C::kConsumers : 1;

  // Tiles of 64 rows that one consumer warpgroup accumulates.
  static constexpr int kBlocks = C::kTileM / kInstructionM / kSharers;
  // Bytes of Y's lines that an instruction multiplies, and how many
  // instructions that makes along k in a stage.
  static constexpr int kStepBytes = kInstructionKBytes * (C::kSparse ? 2 : 1);
  static constexpr int kSteps = kSwizzleBytes / kStepBytes;
  // Groups of 8 columns.
  static constexpr int kGroups = C::kTileN / 8;

  // What the epilogue stages and computes in: elements of D, or partial sums
  // that a second kernel turns into them.
  using Staged = If<C::kSplitK, typename C::Sum, typename C::Output>;
  using Value = If<C::kSplitK, typename C::Sum, typename C::Value>;

  static constexpr int kStagedBytes = sizeof(Staged);
  // What is made twice is the same, but a C that is D would be read after it is
  // written, and CTAs of a cluster send each sum once.
  static constexpr bool kSlabsMayOverlap = !C::kStagesC && C::kCluster == 1;
  static constexpr int kSlabColumns = SlabColumns(
      C::kStore, C::kTileN, kStagedBytes, kSlabsMayOverlap,
      MostSlabColumns(C::kCluster, C::kTileM, C::kTileN, kStagedBytes));
  static constexpr int kLineBytes =
      SlabLineBytes(C::kStore, kSlabColumns, kStagedBytes);
  static constexpr int kSlabs = Slabs(C::kTileN, kSlabColumns);
  static constexpr int kSlabBytes = kSlabColumns * kInstructionM * kStagedBytes;
  static constexpr int kStagingBytes =
      C::kSlabBuffers * Writers(C::kSchedule, C::kConsumers) * kSlabBytes;

  static_assert(C::kTileN % 8 == 0 && C::kTileN >= 8 && C::kTileN <= 256);
  static_assert(C::kTileM == kInstructionM * kBlocks * kSharers);
  static_assert(C::kStages % kRings == 0);
  static_assert(kInterleaved + C::kSplitK + (C::kCluster > 1) < 2,
                "k is shared once");
  static_assert(C::kCluster == 1 ||
                    !(kPingPong || C::kStagesC || C::kGrouped || kWidens<C>),
                "a cluster has one tile, which its CTAs make together");
  static_assert(C::kMulticast == 1 ||
                    !(kInterleaved || C::kGrouped || C::kCluster > 1),
                "CTAs that load for each other do the same in step");
  static_assert(C::kTileN % C::kMulticast == 0);
  static_assert(!C::kBalanced || !(C::kSplitK || C::kGrouped || kInterleaved ||
                                   C::kCluster > 1 || kWidens<C>),
                "sums that are passed on are those of all k so far");
  static_assert(!kPingPong || C::kConsumers == 2);
  static_assert(kLineBytes >= 16, "a box of the copy engine has 16 bytes");
  static_assert(kSlabBytes % (8 * kLineBytes) == 0,
                "a swizzle repeats after eight lines");
};

}  // namespace gemmd
