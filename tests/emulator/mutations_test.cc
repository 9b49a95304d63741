// Mistakes in device code, one at a time: each is planted in a copy of the
// templates, and the emulator has to say what it is.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/emulator/product.h"

namespace gemmd::emulator {
namespace {

namespace fs = std::filesystem;

struct Mutation {
  const char* name;
  const char* file;  // Below templates/.
  const char* from;  // Stands there once.
  const char* to;
  const char* line;   // Of the case: what follows its name.
  const char* cause;  // What some report says.
};

void PrintTo(const Mutation& mutation, std::ostream* out) {
  *out << mutation.name;
}

constexpr char kCooperative[] =
    "bf16 TN 300 72 400 alpha=2 beta=-1 ; 128x64 co2 s3";
constexpr char kPingPong[] = "bf16 NN 300 72 400 ; 128x64 pp s3";
constexpr char kTransposed[] = "bf16 TN 300 72 200 d=f32 ; 64x32 co1 s3";
constexpr char kSplit[] = "bf16 TN 64 64 700 ; 64x64 co1 s3 split2";
// Four lanes share the parts, in rounds.
constexpr char kManyParts[] = "bf16 TN 40 24 3000 ; 64x32 co1 s3 split23 sms5";
constexpr char kWide[] = "bf16 TN 130 200 100 ; 128x200 pp s3";
constexpr char kC[] = "bf16 TN 128 128 64 beta=2 ; 64x64 co1 s2 swap";

constexpr char kWeights[] =
    "bf16-s4 TN 72 130 200 group=32 zero_points ; 128x64 co2 s3 g0 swap";
constexpr char kLongGroups[] =
    "f16-s8 TN 72 300 420 group=128 ; 256x64 co2 s3 g0 swap";
constexpr char kInterleaved[] =
    "bf16-s4 TN 24 200 650 group=64 ; 64x16 in4 s8 swap";
constexpr char kSparse[] = "sparse-bf16 TN 130 72 200 ; 128x64 co2 s3 g0";
constexpr char kSparseBytes[] = "sparse-s8 TN 130 64 600 ; 128x64 co2 s3 g0";

constexpr char kCluster[] = "bf16 TN 130 70 700 ; 128x64 co2 s3 cl3";

constexpr char kMulticast[] = "bf16 TN 530 72 700 ; 128x64 co2 s3 mc2 sms2";
constexpr char kMulticastAcross[] =
    "bf16 NT 300 136 400 ; 64x72 pp s3 mc2 sms4";

constexpr char kAbsent[] = "bf16 TN 40 20 200 ; 64x32 co1 s3";

constexpr char kBalanced[] = "bf16 TN 330 70 1050 ; 64x32 co1 s3 sms4 balanced";
constexpr char kBalancedInPlace[] =
    "bf16 TN 330 70 1050 beta=1 ; 64x32 co1 s3 sms4 balanced inplace";
constexpr char kBalancedLonger[] =
    "bf16 TN 330 70 1100 ; 64x32 co1 s3 sms8 balanced";
constexpr char kBalancedPairs[] =
    "bf16 TN 900 40 1100 ; 64x32 co1 s3 sms6 mc2 balanced";
constexpr char kBalancedTurns[] =
    "bf16 NN 330 70 1100 ; 64x32 pp s4 sms4 balanced";

constexpr char kGrouped[] =
    "bf16 TN 130 40 200 beta=2 ; 128x32 pp s3 sms2 grouped ; 1 1 1, 300 33 70";

constexpr Mutation kMutations[] = {
    // What a barrier counts.
    {"an_empty_barrier_expects_one_more", "pipeline/ring.h",
     "InitBarrier(empty(stage), consumers * kCtas)",
     "InitBarrier(empty(stage), consumers * kCtas + 1)", kCooperative,
     "of 3 arrivals missing"},
    {"an_empty_barrier_expects_one_less", "kernels/gemm.cu",
     "ring_of(i).Init(T::kSharers)", "ring_of(i).Init(1)", kCooperative,
     "overwritten while in flight"},
    {"a_full_barrier_expects_two", "pipeline/ring.h",
     "InitBarrier(full(stage), 1)", "InitBarrier(full(stage), 2)", kPingPong,
     "of 2 arrivals missing"},
    {"every_warp_releases_a_stage", "kernels/gemm.cu",
     "span.first && first_warp &&", "span.first &&", kPingPong,
     "overwritten while in flight"},
    {"all_threads_arrive", "kernels/gemm.cu",
     "ptx::ElectOne()) turn.Pass();\n  ptx::WgmmaWait<0>();",
     "true) turn.Pass();\n  ptx::WgmmaWait<0>();", kPingPong,
     "phase overtaken"},
    {"the_turn_is_never_passed", "kernels/gemm.cu",
     "turn.Pass();\n  ptx::WgmmaWait<0>();", ";\n  ptx::WgmmaWait<0>();",
     kPingPong, "deadlock"},
    // Phases.
    {"the_turn_has_the_other_phase", "pipeline/turn.h", "phase_(consumer ^ 1)",
     "phase_(consumer)", kPingPong, "deadlock"},
    {"the_ring_never_changes_its_phase", "pipeline/ring.h",
     "      phase_ ^= 1;\n", "", kCooperative, "read before it is there"},
    {"the_producer_starts_in_the_other_phase", "pipeline/ring.h",
     "ptx::Wait(empty(stage_), phase_ ^ 1)", "ptx::Wait(empty(stage_), phase_)",
     kCooperative, "deadlock"},
    {"a_consumer_skips_one_stage_too_few", "kernels/gemm.cu",
     "ring.Skip(stages)", "ring.Skip(stages - 1)", kPingPong,
     "read before it is there"},
    {"c_is_waited_for_in_one_phase_only", "epilogue/tile_writer.h",
     "        phases_ ^= 1u << buffer_;\n", "", kCooperative, "parity 0"},
    // Waits.
    {"a_stage_is_released_before_it_is_multiplied", "kernels/gemm.cu",
     "ptx::WgmmaWait<1>();", "ptx::WgmmaWait<2>();", kCooperative,
     "overwritten while in flight"},
    {"the_last_group_is_not_waited_for", "kernels/gemm.cu",
     "  ptx::WgmmaWait<0>();\n  if", "  if", kTransposed,
     "sums touched in flight"},
    {"a_stage_is_not_waited_for", "kernels/gemm.cu",
     "    ring.WaitFull();\n    Issue(", "    Issue(", kCooperative,
     "read before it is there"},
    {"c_is_not_waited_for", "epilogue/tile_writer.h",
     "        ptx::Wait(barriers_ + 8 * buffer_, phases_ >> buffer_ & 1);\n",
     "", kC, "read before it is there"},
    {"stores_are_not_waited_for", "epilogue/tile_writer.h",
     "      if (IsLeader()) ptx::WaitStoresRead();\n      Sync", "      Sync",
     kTransposed, "overwritten while in flight"},
    {"the_last_stores_are_not_waited_for", "epilogue/tile_writer.h",
     "    if (IsLeader()) ptx::WaitStoresRead();\n  }", "  }", kTransposed,
     "shared memory given back while in flight"},
    {"the_grid_before_is_not_waited_for", "kernels/gemm.cu",
     "  ptx::WaitForDependencies();\n", "", kCooperative,
     "global memory before the dependency wait"},
    {"the_reduction_does_not_wait_for_the_parts", "kernels/reduce.cu",
     "  ptx::WaitForDependencies();\n", "", kSplit,
     "global memory before the dependency wait"},
    // Fences and barriers of threads.
    {"the_proxy_fence_is_dropped", "epilogue/tile_writer.h",
     "      ptx::FenceAsyncShared();\n", "", kCooperative,
     "missing proxy fence"},
    {"the_wgmma_fence_is_dropped", "kernels/gemm.cu", "  ptx::WgmmaFence();\n",
     "", kCooperative, "missing wgmma fence"},
    {"the_fence_of_barriers_is_dropped", "kernels/gemm.cu",
     "    ptx::FenceBarrierInit();\n", "", kCooperative, "barrier not fenced"},
    {"roles_start_before_barriers_are_made", "kernels/gemm.cu",
     "  ptx::SyncCta();\n", "", kCooperative, "barrier"},
    {"a_slab_is_stored_before_it_is_whole", "epilogue/tile_writer.h",
     "      SyncWarpgroup();\n", "", kTransposed, "with no barrier between"},
    {"warpgroups_meet_at_one_barrier", "epilogue/tile_writer.h",
     "ptx::SyncThreads<2, kWarpgroupThreads>()",
     "ptx::SyncThreads<1, kWarpgroupThreads>()", kCooperative,
     "with no barrier between"},
    // Addresses.
    {"the_descriptor_has_another_swizzle", "pipeline/operand_tile.h",
     "kLineBytes == 128  ? 1", "kLineBytes == 128  ? 2", kCooperative,
     "descriptor disagrees with the copy engine"},
    {"the_descriptor_of_16_columns_has_another_swizzle",
     "pipeline/operand_tile.h", "kLineBytes == 32 ? 3", "kLineBytes == 32 ? 2",
     "bf16 NT 64 16 200 ; 64x16 co1 s3",
     "descriptor disagrees with the copy engine"},
    {"the_descriptor_of_8_columns_has_its_offsets_exchanged",
     "pipeline/operand_tile.h", "kSwizzle == 0 ? kGroup : kSlab;", "kSlab;",
     "bf16 NT 64 8 200 ; 64x8 co1 s3",
     "descriptor disagrees with the copy engine"},
    {"the_descriptor_has_another_stride", "pipeline/operand_tile.h",
     "kGroup = 8 * kLineBytes", "kGroup = 4 * kLineBytes", kCooperative,
     "descriptor disagrees with the copy engine"},
    {"slabs_of_a_descriptor_are_too_near", "pipeline/operand_tile.h",
     "kSlabBytes / 16;", "kSlabBytes / 32;",
     "bf16 NT 100 256 200 ; 64x128 pp s3",
     "descriptor disagrees with the copy engine"},
    {"operands_step_along_k_differently", "kernels/gemm.cu",
     "YTile::Offset(0, step *", "YTile::Offset(0, (step ^ 1) *", kCooperative,
     "operands at different k"},
    {"the_epilogue_has_another_swizzle", "epilogue/slab.h", "offset >> 7",
     "offset >> 8", kPingPong, "another swizzle"},
    {"the_last_slab_does_not_end_with_the_tile", "epilogue/tile_writer.h",
     "SlabColumn(C::kTileN, T::kSlabColumns, i / kOutputs % T::kSlabs)",
     "Min(i / kOutputs % T::kSlabs * T::kSlabColumns, 80)",
     "bf16 TN 130 300 200 ; 128x136 co2 s3", "were never written"},
    {"a_tile_at_the_edge_begins_too_early", "scheduler/work.h",
     "product().last_row)", "product().last_row - 64)",
     "bf16 NT 200 150 100 ; 128x64 co2 s3", "were never written"},
    {"a_tile_at_the_edge_begins_anywhere", "scheduler/work.h",
     "product().last_row)", "product().last_row - 1)",
     "bf16 TN 202 150 100 ; 128x64 co2 s3", "between multiples of 16 bytes"},
    {"stages_overlap", "kernels/gemm.cu",
     "shared + ring.stage() * kStageBytes;\n      const uint32 full",
     "shared + ring.stage() * (kStageBytes - 1024);\n      const uint32 full",
     kCooperative, "read before it is there"},
    {"barriers_lie_in_the_staging_buffers", "kernels/gemm.cu",
     "kHanded + HandedBytes(", "kHanded - 64 + HandedBytes(", kCooperative,
     "barrier overwritten"},
    {"a_stage_is_misaligned", "kernels/gemm.cu",
     "const uint32 shared = ptx::SharedBase();",
     "const uint32 shared = ptx::SharedBase() + 64;", kCooperative,
     "misaligned"},
    {"shared_memory_ends_too_early", "kernels/gemm.cu",
     "const uint32 shared = ptx::SharedBase();",
     "const uint32 shared = ptx::SharedBase() + 1024;", kCooperative,
     "outside of shared memory"},
    // Numbers.
    {"too_few_bytes_are_announced", "kernels/gemm.cu",
     "ring.Acquire(X::kLoadBytes", "ring.Acquire(X::kLoadBytes - 128",
     kCooperative, "wrong transaction bytes"},
    {"too_many_bytes_are_announced", "epilogue/tile_writer.h",
     "ArriveExpecting(barrier, T::kSlabBytes)",
     "ArriveExpecting(barrier, T::kSlabBytes + 16)", kC,
     "16 announced bytes that no copy brings"},
    {"consumers_take_too_many_registers", "kernels/gemm.cu",
     "kRegistersOfTwo = kMany ? 240 : 232",
     "kRegistersOfTwo = kMany ? 248 : 240", kWide, "register budget"},
    {"alpha_is_forgotten", "epilogue/steps/alpha.h", "*= arguments.alpha",
     "*= 1.0f", kCooperative, "as if alpha were 1"},
    {"beta_is_forgotten", "epilogue/steps/add_c.h",
     "arguments.beta * element.c", "element.c", kCooperative,
     "as if beta were 1"},
    {"a_slab_of_c_is_stale", "epilogue/tile_writer.h",
     "LoadC(arguments, SlabAt(at, i + 1), buffer_ ^ 1)",
     "LoadC(arguments, SlabAt(at, i), buffer_ ^ 1)",
     "bf16 TN 128 128 64 beta=2 alpha=0.0009765625 d=f32 ; 64x64 co1 s2",
     "as if C's lines were those"},
    {"the_last_stage_of_k_is_forgotten", "scheduler/work.h",
     "return product().part_stages;", "return product().part_stages - 1;",
     kTransposed, "as if k from 192 to 200 were left out"},
    {"a_part_of_k_is_forgotten", "kernels/reduce.cu", "part < last; ++part",
     "part + 1 < last; ++part", kSplit, "as if part 1 of 2 of k were left out"},
    {"later_parts_of_a_lane_are_forgotten", "kernels/reduce.cu",
     "first += kAhead * lanes()", "first += (kAhead + 1) * lanes()", kManyParts,
     "wrong D"},
    {"a_lane_adds_its_first_part_again", "kernels/reduce.cu",
     "parts[j - 1] = parts[j];", "parts[j - 1] = parts[0];", kManyParts,
     "wrong D"},
    {"a_lane_of_four_is_forgotten", "kernels/reduce.cu",
     "part.at[j], from + i, a_.lane_bits",
     "part.at[j], from + i / 3, a_.lane_bits", kManyParts, "wrong D"},
    {"the_last_tile_is_forgotten", "scheduler/work.h", "index_ >= all_.units",
     "index_ >= all_.units - 1", kPingPong, "were never written"},
    {"rows_are_eight_too_far", "kernels/gemm.cu", "arguments, unit.tile.row,",
     "arguments, unit.tile.row + 8,", kTransposed, "8 elements further on"},
    {"the_box_of_the_other_side", "epilogue/slab.h",
     "const int x = kTransposed ? row : at.column;\n"
     "      const int y = kTransposed ? at.column : row;",
     "const int x = kTransposed ? at.column : row;\n"
     "      const int y = kTransposed ? row : at.column;",
     kTransposed, "were never written"},
    // How weights become fragments, these elements, and what scales them.
    {"fragments_of_other_k", "kernels/prepare/fragments.cu",
     "k += 2 * (lane % 4);", "k += lane % 4;", kWeights, "wrong D"},
    {"fragments_of_other_rows", "kernels/prepare/fragments.cu",
     "line + 8 * (i % 2)", "line + 8 * (i / 2)", kWeights, "wrong D"},
    {"all_groups_have_the_first_scale", "kernels/prepare/fragments.cu",
     "weights.scales_at + 4 * group", "weights.scales_at", kWeights, "wrong D"},
    {"the_first_group_is_not_there", "kernels/prepare/fragments.cu",
     "group < weights.groups", "group > 0", kWeights, "wrong D"},
    {"zero_points_of_other_rows", "pipeline/widening.h", "(x[i], zero[i % 2])",
     "(x[i], zero[i / 2])", kWeights, "wrong D"},
    {"weights_lose_their_sign", "pipeline/widening.h", "kPower<Element> | 8",
     "kPower<Element>", kWeights, "wrong D"},
    {"the_lower_row_has_the_upper_scale", "pipeline/x_widened.h",
     "(row + 8 * half) * 4", "row * 4", kWeights, "wrong D"},
    {"all_blocks_have_the_first_fragments", "pipeline/x_widened.h",
     "(stage * weights.blocks + block)", "(stage * weights.blocks)", kWeights,
     "wrong D"},
    {"the_group_of_another_stage", "pipeline/x_widened.h",
     "stage >> weights.stage_shift", "stage", kLongGroups, "wrong D"},
    {"fragments_are_overwritten", "pipeline/x_widened.h",
     "!kWidens<C> || C::kGroupsInFlight == 0", "true",
     "bf16-s4 TN 72 130 400 ; 128x64 co2 s3 g1 swap",
     "fragments touched in flight"},
    {"the_last_group_is_left_out", "pipeline/sum.h",
     "ends_ = of_group_ == mask_ || stage == last;",
     "ends_ = of_group_ == mask_;", kLongGroups, "wrong D"},
    {"each_stage_begins_anew", "pipeline/sum.h",
     "return (Tiling<C>::kInterleaved ? 0 : of_group_) + step;", "return step;",
     kLongGroups, "wrong D"},
    // Consumers that share k.
    {"sums_are_taken_before_they_are_handed_over", "pipeline/handed_sums.h",
     "    if (consumer_ != 0) Hand(sums);\n    SyncConsumers();\n",
     "    if (consumer_ != 0) Hand(sums);\n", kInterleaved,
     "read before it is there"},
    {"nobody_waits_for_what_is_handed_over", "pipeline/handed_sums.h",
     "ptx::SyncThreads<5, C::kConsumers * kWarpgroupThreads>();", "",
     kInterleaved, "read before it is there"},
    {"the_last_part_is_not_added", "pipeline/handed_sums.h",
     "consumer < C::kConsumers;", "consumer < C::kConsumers - 1;", kInterleaved,
     "as if part 3 of 4 of k were left out"},
    {"parts_are_added_in_another_order", "pipeline/handed_sums.h",
     "At(consumer, block, i), first, second",
     "At(C::kConsumers - consumer, block, i), first, second",
     "f16-e4m3 TN 24 200 1000 d=f32 ; 64x16 in4 s8 g0 swap", "wrong D"},
    {"the_second_block_is_the_first", "pipeline/handed_sums.h",
     "(block * kBlockSums + i)", "i",
     "bf16-s4 TN 24 130 700 group=64 ; 128x16 in4 s8 swap", "wrong D"},
    {"all_producers_fill_one_ring", "kernels/gemm.cu",
     "Produce(arguments, shared + number * kRingBytes,",
     "Produce(arguments, shared,", kInterleaved, "overwritten while in flight"},
    {"rings_have_the_same_barriers", "kernels/gemm.cu",
     "number * StageRing::kBytes);", "0 * number);", kInterleaved,
     "barrier made twice"},
    {"no_part_is_longer", "scheduler/work.h",
     "split < product().longer_parts ? 1 : 0", "0", kInterleaved, "wrong D"},
    {"all_consumers_write_the_tile", "kernels/gemm.cu",
     "!T::kInterleaved || consumer == 0", "true", kInterleaved,
     "overwritten while in flight"},
    {"x_is_fetched_into_what_is_multiplied", "kernels/gemm.cu",
     "multiply(even, odd, stage)", "multiply(even, even, stage)", kInterleaved,
     "wrong D"},
    {"the_stage_ahead_is_released", "kernels/gemm.cu", "ring.Release(own);",
     "ring.Release(ring.stage());", kInterleaved, "deadlock"},
    // CTAs that share k.
    {"sums_are_sent_before_the_cluster_has_met", "pipeline/cluster_sums.h",
     "    ptx::WaitCluster();\n", "", kCluster, "peer not known to have begun"},
    {"nobody_says_that_barriers_are_made", "kernels/gemm.cu",
     "if constexpr (kClusters || kMulticast) ptx::ArriveCluster();", "",
     kCluster, "cluster met twice"},
    {"only_consumers_come_to_the_meeting", "kernels/gemm.cu",
     "if constexpr (kClusters || kMulticast) ptx::ArriveCluster();",
     "if (kClusters && warpgroup != 0) ptx::ArriveCluster();", kCluster,
     "for the cluster"},
    {"sums_of_others_are_not_awaited", "pipeline/cluster_sums.h",
     "    ptx::Wait(barrier_, 0);\n", "", kCluster, "read before it is there"},
    {"too_few_bytes_are_awaited", "pipeline/cluster_sums.h",
     "DivideUp(kPieces - rank, C::kCluster)", "kPieces / C::kCluster", kCluster,
     "uninitialised read"},
    {"too_many_bytes_are_awaited", "pipeline/cluster_sums.h",
     "DivideUp(kPieces - rank, C::kCluster)", "DivideUp(kPieces, C::kCluster)",
     kCluster, "announced bytes that no copy brings"},
    {"all_parts_go_to_one_place", "pipeline/cluster_sums.h",
     "ptx::PeerAddress(At(number, rank_), owner)",
     "ptx::PeerAddress(At(number, 0), owner)", kCluster,
     "overwritten while in flight"},
    {"all_sums_go_to_one_peer", "pipeline/cluster_sums.h",
     "number % C::kCluster;\n          const uint32 to",
     "0 * number;\n          const uint32 to", kCluster, "uninitialised read"},
    {"a_barrier_of_another_peer", "pipeline/cluster_sums.h",
     "ptx::PeerAddress(barrier_, owner)", "ptx::PeerAddress(barrier_, rank_)",
     kCluster, "completes on a barrier of another"},
    {"the_last_cta_is_not_added", "pipeline/cluster_sums.h",
     "part < C::kCluster; ++part", "part < C::kCluster - 1; ++part", kCluster,
     "as if part 2 of 3 of k were left out"},
    {"ctas_are_added_in_another_order", "pipeline/cluster_sums.h",
     "At(first_ + piece, part)", "At(first_ + piece, C::kCluster - 1 - part)",
     "bf16 TN 130 70 700 d=f32 ; 128x64 co2 s3 cl3", "wrong D"},
    {"all_ctas_write_the_tile", "kernels/gemm.cu",
     "!kClusters || of_cluster.Owns(slab)", "true", kCluster, "wrong D"},
    {"the_second_consumer_has_the_pieces_of_the_first",
     "pipeline/cluster_sums.h", "first_(consumer * kConsumerPieces)",
     "first_(0 * consumer)", kCluster, "overwritten while in flight"},
    {"all_ctas_have_the_first_part_of_k", "kernels/gemm.cu",
     "              kClusters ? rank : number,", "              number,",
     kCluster, "wrong D"},
    {"ctas_of_a_cluster_have_other_tiles", "scheduler/work.h",
     "worker_(ptx::CtaIndex() / kClusterCtas)", "worker_(ptx::CtaIndex())",
     kCluster, "deadlock"},
    // Units that are shared out to the stage.
    {"sums_are_not_passed_on", "kernels/gemm.cu",
     "      if (work.passes_on()) {\n        passed.Give(sums);",
     "      if (work.passes_on()) {", kBalanced, "flag that nobody raises"},
    {"sums_are_not_taken", "kernels/gemm.cu",
     "if (work.continues()) passed.Take(sums);", ";", kBalanced,
     "flag left raised"},
    {"a_begun_unit_begins_anew", "kernels/gemm.cu",
     "const Span span = {first, first + stages - 1, first_row};",
     "const Span span = {0, stages - 1, first_row};", kBalanced, "wrong D"},
    {"a_begun_unit_is_loaded_from_its_start", "kernels/gemm.cu",
     "unit.split + work.first_stage()", "unit.split", kBalanced, "wrong D"},
    {"a_part_of_a_unit_is_written", "kernels/gemm.cu",
     "        passed.Give(sums);\n        continue;",
     "        passed.Give(sums);", kBalancedInPlace, "wrong D"},
    {"the_flag_is_not_lowered", "pipeline/passed_sums.h",
     "if (lane_ == 0) ptx::LowerFlag(FlagOf(giver));", ";", kBalanced,
     "flag left raised"},
    {"sums_of_the_cluster_are_taken", "pipeline/passed_sums.h",
     "ptx::CtaIndex() - C::kMulticast", "ptx::CtaIndex() - 1", kBalancedPairs,
     "wrong D"},
    {"the_taker_looks_elsewhere", "pipeline/passed_sums.h",
     "(T::kPingPong ? 0 : 4 * consumer)", "(4 * consumer)", kBalancedTurns,
     "flag that nobody raises"},
    {"lanes_have_the_same_place", "pipeline/passed_sums.h", "+ 2 * lane_", "",
     kBalanced, "wrong D"},
    {"a_round_is_left_out", "scheduler/work.h", "step_ - balance.rounds",
     "step_ - balance.rounds + 1", kBalancedTurns, "wrong D"},
    {"longer_shares_are_forgotten", "scheduler/work.h",
     " + Min(worker, balance.longer)", "", kBalancedLonger, "wrong D"},
    // Lines that the matrix does not have.
    {"bytes_are_awaited_that_no_box_has", "kernels/gemm.cu",
     " - arguments.absent_bytes", "", kAbsent,
     "announced bytes that no copy brings"},
    // CTAs that load Y for each other.
    {"a_cta_ends_while_others_release_its_stages", "kernels/gemm.cu",
     "  if constexpr (kMulticast) ring.Drain();\n", "", kMulticast,
     "shared memory given back"},
    {"stages_are_filled_before_the_cluster_has_met", "kernels/gemm.cu",
     "  if constexpr (kMulticast) ptx::WaitCluster();\n", "", kMulticast,
     "peer not known to have begun"},
    {"only_the_own_consumers_release_a_stage", "pipeline/ring.h",
     "InitBarrier(empty(stage), consumers * kCtas)",
     "InitBarrier(empty(stage), consumers)", kMulticast,
     "overwritten while in flight"},
    {"a_stage_is_released_to_its_own_producer_alone", "pipeline/ring.h",
     "ptx::PeerAddress(empty(stage), rank)",
     "ptx::PeerAddress(empty(stage), ptx::ClusterRank())", kMulticast,
     "overwritten while in flight"},
    {"both_ctas_load_the_first_half", "kernels/gemm.cu",
     "            full, member);", "            full, 0);", kMulticast,
     "overwritten while in flight"},
    {"each_cta_loads_for_itself", "pipeline/operand_tile.h",
     "(1 << kParts) - 1", "1", kMulticast,
     "announced bytes that no copy brings"},
    {"a_half_of_k_goes_where_the_other_does", "pipeline/operand_tile.h",
     "to + slab * kSlabBytes + first * kLineBytes", "to + slab * kSlabBytes",
     kMulticastAcross, "overwritten while in flight"},
    {"both_halves_are_of_the_same_k", "pipeline/operand_tile.h", "k + first",
     "k", kMulticastAcross, "operands at different k"},
    {"the_lower_tile_is_written_where_the_upper_one_is", "kernels/gemm.cu",
     "kMulticast ? rank : 0);\n       !work.done()", "0);\n       !work.done()",
     kMulticast, "wrong D"},
    {"tiles_of_a_unit_overlap", "scheduler/work.h",
     "at.row * C::kMulticast + member_", "at.row + member_", kMulticast,
     "wrong D"},
    // Who may issue when.
    {"one_warp_passes_the_turn", "kernels/gemm.cu", "kAlternate ? 4 : 1", "1",
     kLongGroups, "deadlock"},
    // Which metadata a sparse instruction takes.
    {"the_selectors_are_exchanged", "pipeline/x_source.h", "step % 2 == 1",
     "step % 2 == 0", kSparse, "wrong D"},
    {"all_blocks_take_the_metadata_of_the_first", "pipeline/x_source.h",
     "from_ + block * kBlockBytes + word * 4", "from_ + word * 4",
     "sparse-bf16 TN 256 72 200 ; 256x64 co2 s3 g0", "wrong D"},
    {"both_instructions_take_one_word", "pipeline/x_source.h",
     "metadata_[block][step % kWords]", "metadata_[block][0]", kSparseBytes,
     "wrong D"},
    {"metadata_come_from_the_next_stage", "pipeline/x_source.h",
     "stage * kWords * kWarpgroupThreads",
     "(stage + 1) * kWords * kWarpgroupThreads", kSparse, "wrong D"},
    {"metadata_are_those_of_the_first_rows", "pipeline/x_source.h",
     "line / kInstructionM,", "0,", kSparse, "wrong D"},
    {"fewer_bytes_are_announced_than_come", "pipeline/x_source.h",
     "Tile::kBytes + MetadataBytes(kBits, C::kTileM);", "Tile::kBytes;",
     kSparse, "transaction"},
    {"a_group_stays_in_flight_while_metadata_are_fetched",
     "pipeline/x_source.h", "!C::kSparse || C::kGroupsInFlight == 0", "true",
     "sparse-bf16 TN 130 72 400 ; 128x64 co2 s3 g1", "metadata touched"},
    {"the_lower_half_of_a_byte_is_the_later_chunk",
     "kernels/prepare/metadata.cu", "byte >> 4 * (i % 2)",
     "byte >> 4 * (1 - i % 2)", kSparse, "wrong D"},
    {"the_rows_of_a_word_are_exchanged", "kernels/prepare/metadata.cu",
     "Chunks(a, matrix, line + 8, chunk, 4) << 16",
     "Chunks(a, matrix, line + 4, chunk, 4) << 16", kSparse, "wrong D"},
    {"the_lanes_of_a_word_are_exchanged", "kernels/prepare/metadata.cu",
     "first_chunk + 8 * upper + 4 * odd", "first_chunk + 4 * upper + 8 * odd",
     kSparse, "wrong D"},
    {"lanes_of_bytes_are_exchanged", "kernels/prepare/metadata.cu",
     "line + 8 * odd,", "line + 8 * upper,", kSparseBytes, "wrong D"},
    {"lines_that_are_not_there_have_no_pattern", "kernels/prepare/metadata.cu",
     "uint32 pattern = kAnyPattern;", "uint32 pattern = 0;", kSparse,
     "metadata without meaning"},
    {"y_advances_as_in_a_dense_product", "kernels/gemm.cu",
     "step * T::kStepBytes / kInstructionKBytes", "step", kSparse,
     "operands at different k"},
    {"x_is_swizzled_as_a_dense_one", "pipeline/operand_tile.h",
     "kLineBytes == 64 ? 2", "kLineBytes == 64 ? 1", kSparse,
     "descriptor disagrees"},
    // Products of one launch.
    {"the_map_of_x_is_not_acquired", "kernels/gemm.cu",
     "      X::Acquire(arguments);\n", "", kGrouped, "tensor map not acquired"},
    {"the_map_of_y_is_not_acquired", "kernels/gemm.cu",
     "      ptx::AcquireTensorMap(&arguments.y);\n", "", kGrouped,
     "tensor map not acquired"},
    {"the_map_of_d_is_not_acquired", "epilogue/tile_writer.h",
     "      ptx::AcquireTensorMap(&arguments.d);\n", "", kGrouped,
     "tensor map not acquired"},
    {"the_map_of_c_is_not_acquired", "epilogue/tile_writer.h",
     "ptx::AcquireTensorMap(&arguments.c);", ";", kGrouped,
     "tensor map not acquired"},
    {"the_first_unit_of_a_product_is_the_one_befores", "scheduler/work.h",
     "all_.first_unit[group_ + step] <= index_",
     "all_.first_unit[group_ + step] < index_", kGrouped, "wrong D"},
    {"units_are_counted_from_the_first_product", "scheduler/work.h",
     "return index_ - all_.first_unit[group_];", "return index_;", kGrouped,
     "wrong D"},
    {"all_products_are_the_first", "scheduler/work.h",
     "return all_.products[group_];", "return all_.products[0];", kGrouped,
     "wrong D"},
};

std::string TextOf(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class MutationsTest : public testing::TestWithParam<Mutation> {
 protected:
  // The same mutant has the same path: see WriteSource in module.cc.
  MutationsTest() : templates_(fs::path(GEMMD_TEST_MUTANTS) / GetParam().name) {
    fs::remove_all(templates_);
    fs::create_directories(templates_);
    fs::copy(GEMMD_TEST_TEMPLATES, templates_, fs::copy_options::recursive);
  }
  ~MutationsTest() override { fs::remove_all(templates_); }

  // Whether the text to replace stood there once.
  bool Plant(const Mutation& mutation) {
    const fs::path path = templates_ / mutation.file;
    std::string text = TextOf(path);
    const int count =
        absl::StrReplaceAll({{mutation.from, mutation.to}}, &text);
    std::ofstream(path) << text;
    return count == 1;
  }

  const fs::path templates_;
};

TEST_P(MutationsTest, IsCaughtByItsCause) {
  const Mutation& mutation = GetParam();
  ASSERT_TRUE(Plant(mutation)) << "the text to change is not there once";
  const auto c = ParseCase(absl::StrCat("mutant: ", mutation.line));
  ASSERT_TRUE(c.ok()) << c.status();
  const auto kernels = CompileCase(*c, templates_.string());
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  std::vector<std::string> all;
  constexpr uint64_t kSeeds = 8;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto faults = RunLaunch(*c, *kernels, c->launches()[0], seed);
    ASSERT_TRUE(faults.ok()) << faults.status();
    for (const std::string& fault : *faults) {
      if (absl::StrContains(fault, mutation.cause)) return;
    }
    all.insert(all.end(), faults->begin(), faults->end());
  }
  ADD_FAILURE() << "none of " << all.size() << " reports says '"
                << mutation.cause << "'";
  for (const std::string& fault : all) ADD_FAILURE() << fault;
}

// The cases of the mutations themselves are sound.
TEST(SoundTest, NothingIsSaidOfWhatIsRight) {
  for (const char* line : {kCooperative,    kPingPong,      kTransposed,
                           kSplit,          kWide,          kC,
                           kWeights,        kLongGroups,    kInterleaved,
                           kSparse,         kSparseBytes,   kGrouped,
                           kCluster,        kMulticast,     kMulticastAcross,
                           kAbsent,         kBalanced,      kBalancedInPlace,
                           kBalancedLonger, kBalancedPairs, kBalancedTurns}) {
    const auto c = ParseCase(absl::StrCat("sound: ", line));
    ASSERT_TRUE(c.ok()) << c.status();
    const auto kernels = CompileCase(*c);
    ASSERT_TRUE(kernels.ok()) << kernels.status();
    for (uint64_t seed = 0; seed < 4; ++seed) {
      const auto faults = RunLaunch(*c, *kernels, c->launches()[0], seed);
      ASSERT_TRUE(faults.ok()) << faults.status();
      EXPECT_TRUE(faults->empty()) << line << ": " << faults->front();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, MutationsTest, testing::ValuesIn(kMutations),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace gemmd::emulator
