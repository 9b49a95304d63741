// What a launch is made of, field by field: each mistake here would be a wrong
// product and nothing else.
#include "jit/plan/launch_arithmetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "jit/plan/planner.h"
#include "jit/plan/tiling.h"

namespace gemmd::jit {
namespace {

// A (m x k) k-major, B (k x n) n-major, D row-major.
Problem Asymmetric() { return {.m = 1000, .n = 700, .k = 300}; }

Plan Complete(const Problem& problem, bool exchanged, const Config& config) {
  Plan plan;
  for (const Plan& ranked : RankPlans(problem, {}, 1 << 20)) {
    if (ranked.exchanged == exchanged && ranked.splits == 1) plan = ranked;
  }
  plan.config = config;
  CompletePlan(problem, {}, plan);
  return plan;
}

TEST(LaunchArithmetic, MapsAreThoseOfTheirOperands) {
  const Config config = {.tile_m = 128, .tile_n = 192};
  const Plan plan = Complete(Asymmetric(), false, config);
  EXPECT_EQ(plan.x.width, 300) << "A's lines run along k";
  EXPECT_EQ(plan.x.lines, 1000);
  EXPECT_EQ(plan.x.box_width, 64);
  EXPECT_EQ(plan.x.box_lines, 128) << "lines of the tile";
  EXPECT_EQ(plan.y.width, 700) << "B's lines run along n";
  EXPECT_EQ(plan.y.lines, 300);
  EXPECT_EQ(plan.y.box_width, 64);
  EXPECT_EQ(plan.y.box_lines, 64) << "of k in a stage";
  EXPECT_EQ(plan.d.width, 704) << "as whole sectors";
  EXPECT_EQ(plan.d.lines, 1000);
  EXPECT_EQ(plan.d.box_width, 64);
  EXPECT_EQ(plan.d.box_lines, 64);
  EXPECT_EQ(plan.stages, 5);
}

// Where a sector is written in part, L2 merges it with what memory holds.
TEST(LaunchArithmetic, LinesOfDAreWrittenToTheEndOfASectorOrOfTheirPadding) {
  struct Line {
    int64_t elements, written;
  };
  const auto expect = [](DataType type, std::initializer_list<Line> lines) {
    for (const auto& [elements, written] : lines) {
      Problem problem = {.m = 512, .n = elements, .k = 64};
      problem.d_type = problem.c_type = type;
      const Plan plan = ChoosePlan(problem, {});
      const bool row_major = problem.d_order == Order::kRowMajor;
      ASSERT_TRUE(row_major);
      EXPECT_EQ(plan.d.width, written) << Name(type) << ", " << elements;
      EXPECT_LE(plan.d.width * BytesOf(type), plan.d.pitch_bytes);
    }
  };
  expect(DataType::kBf16, {{1, 8}, {8, 8}, {9, 16}, {17, 32}, {120, 128},
                           {128, 128}, {129, 144}, {4095, 4096}});
  expect(DataType::kF32, {{3, 4}, {5, 8}, {33, 40}, {256, 256}});
}

TEST(LaunchArithmetic, ExchangedMapsChangePlacesAndTiles) {
  const Config config = {.tile_m = 128, .tile_n = 192};
  const Plan plan = Complete(Asymmetric(), true, config);
  EXPECT_EQ(plan.x.lines, 300) << "X is B";
  EXPECT_EQ(plan.x.box_lines, 64);
  EXPECT_EQ(plan.y.lines, 1000) << "Y is A";
  EXPECT_EQ(plan.y.box_lines, 192);
  EXPECT_EQ(plan.d.box_width, 64) << "rows of a transposed slab";
  EXPECT_EQ(plan.d.box_lines, SlabColumns(plan.family, config));
}

// D of 64 MB, of operands of 2.
TEST(LaunchArithmetic, WhatIsMostlyWrittenIsWrittenAlongItsLines) {
  Problem problem = {.m = 8192, .n = 4096, .k = 64};
  const Config config = {.tile_m = 128, .tile_n = 192};
  EXPECT_EQ(Complete(problem, false, config).raster_group, 2);
  EXPECT_EQ(Complete(problem, true, config).raster_group, 4096 / 128);
  EXPECT_EQ(Complete(problem, true, {.tile_m = 64, .tile_n = 192}).raster_group,
            32);
  problem.n = 2048;  // That stays in L2.
  EXPECT_EQ(Complete(problem, false, config).raster_group, 16);
  problem.n = 4096;
  problem.k = 1024;  // X and Y do not.
  EXPECT_EQ(Complete(problem, false, config).raster_group, 16);
}

TEST(LaunchArithmetic, FewRoundsTakeAFewOfManyRowsOfTilesAtATime) {
  const Config config = {.tile_m = 128, .tile_n = 128};
  const auto group = [&](int64_t m, int64_t n, int64_t batch = 1) {
    const Problem problem = {.m = m, .n = n, .k = 1024, .batch = batch};
    return Complete(problem, false, config).raster_group;
  };
  ASSERT_EQ(DeviceProperties().multiprocessors, 132);
  EXPECT_EQ(group(16 * 128, 8 * 128), 4) << "one round";
  EXPECT_EQ(group(13 * 128, 8 * 128), 4) << "four groups, the last of one row";
  EXPECT_EQ(group(16 * 128, 24 * 128), 8) << "three rounds";
  EXPECT_EQ(group(16 * 128, 8 * 128, 3), 8) << "of all products";
  EXPECT_EQ(group(16 * 128, 26 * 128), 16) << "four";
  EXPECT_EQ(group(11 * 128, 8 * 128), 11) << "few rows";
  const Problem written = {
      .m = 4096, .n = 4096, .k = 64, .d_type = DataType::kF32};
  EXPECT_EQ(
      Complete(written, true, {.tile_m = 256, .tile_n = 192}).raster_group, 16)
      << "three rounds, but mostly of writes";
}

// Whoever had tiles of the same place in all matrices would be far ahead of
// others in the end, or far behind.
TEST(LaunchArithmetic, EachWorkerHasTilesOfAllPlacesInEqualMatrices) {
  for (const auto& [m, n, batch] :
       {std::array<int64_t, 3>{224, 456, 512}, {224, 456, 513}, {120, 120, 999},
        {500, 700, 77}, {1000, 1000, 9}, {130, 1300, 150}}) {
    const Problem problem = {.m = m, .n = n, .k = 128, .batch = batch};
    for (const int multicast : {1, 2}) {
      const Plan plan = Complete(
          problem, false,
          {.tile_m = 64, .tile_n = 128, .multicast = multicast});
      const int workers = plan.grid / multicast;
      const auto units = static_cast<int>(Units(plan));
      const auto places = static_cast<int>(Tiles(plan) / plan.batch);
      ASSERT_LE(plan.turn, workers);
      std::vector<int> times(units);
      for (int worker = 0; worker < workers; ++worker) {
        std::vector<int> of_place(places);
        int place = worker;  // As templates/scheduler/work.h.
        for (int first = 0; first + place < units; first += workers) {
          ++times[first + place];
          ++of_place[(first + place) % places];
          place = (place + plan.turn) % workers;
        }
        // But for where a worker's place begins anew.
        const auto [least, most] = std::ranges::minmax(of_place);
        const int rounds = units / workers;
        EXPECT_LE(most - least, 2 + rounds * plan.turn / workers)
            << m << "x" << n << "x" << batch << ", worker " << worker << ", "
            << places << " places, turn " << plan.turn;
      }
      EXPECT_THAT(times, testing::Each(1));
    }
  }
}

TEST(LaunchArithmetic, NobodyTurnsWhereThatBringsNothing) {
  const auto turn = [](int64_t m, int64_t n, int64_t batch) {
    const Problem problem = {.m = m, .n = n, .k = 128, .batch = batch};
    return Complete(problem, false, {.tile_m = 64, .tile_n = 128}).turn;
  };
  ASSERT_EQ(DeviceProperties().multiprocessors, 132);
  EXPECT_EQ(turn(4096, 4096, 1), 0) << "one matrix";
  EXPECT_EQ(turn(64, 128, 1000), 0) << "of one tile each";
  EXPECT_EQ(turn(128, 128, 66), 0) << "one round";
  EXPECT_EQ(turn(5 * 64, 128, 1000), 0) << "132 is no multiple of five";
  EXPECT_EQ(turn(3 * 64, 2 * 128, 1000), 1) << "132 is one of six";
}

// 8 x 8 units of 80 stages on 60 SMs.
TEST(LaunchArithmetic, TheLastRoundAndTheOneBeforeItAreSharedOut) {
  const DeviceProperties device = {.multiprocessors = 60};
  Plan plan = Complete({.m = 1000, .n = 1500, .k = 5120}, false,
                       {.tile_m = 128, .tile_n = 192, .balanced = true});
  EXPECT_EQ(BalancedUnits(plan, device), 64);
  EXPECT_EQ(BalancedUnits(plan, {.multiprocessors = 30}), 34);
  EXPECT_EQ(BalancedUnits(plan, {.multiprocessors = 65}), 0)
      << "a share would be less than a unit";
  EXPECT_EQ(BalancedUnits(plan, {.multiprocessors = 64}), 0) << "whole rounds";
  plan.config.balanced = false;
  EXPECT_EQ(BalancedUnits(plan, device), 0);
  plan.config.balanced = true;
  plan.depth = 7 * 64;
  EXPECT_EQ(BalancedUnits(plan, device), 0) << "too few stages to share";
}

TEST(LaunchArithmetic, EveryCtaHasRoomForTheSumsThatItPassesOn) {
  const Problem problem = {.m = 1000, .n = 1500, .k = 5120};
  const DeviceProperties device = {.multiprocessors = 60};
  const Config config = {.tile_m = 128, .tile_n = 192, .balanced = true};
  Plan plan = Complete(problem, false, config);
  plan.balanced_units = BalancedUnits(plan, device);
  CompletePlan(problem, device, plan);
  EXPECT_EQ(plan.partials_bytes, 60 * 128 * 192 * 4);
  EXPECT_EQ(PassFlagsBytes(plan), 60 * 16 * 4);
}

TEST(LaunchArithmetic, OneCtaPerMultiprocessorOrPerUnit) {
  Plan plan = Complete(Asymmetric(), false, {.tile_m = 128, .tile_n = 192});
  EXPECT_EQ(plan.grid, 8 * 4);
  plan = Complete({.m = 8192, .n = 8192, .k = 64}, false, {});
  EXPECT_EQ(plan.grid, DeviceProperties().multiprocessors);
}

TEST(LaunchArithmetic, APartOfASplitProductIsAMatrixOfItsOwn) {
  const Problem problem = {.m = 100, .n = 90, .k = 8192, .batch = 2};
  Plan plan = Complete(problem, false, {});
  plan.splits = 3;
  plan.config.split_k = true;
  CompletePlan(problem, {}, plan);
  EXPECT_EQ(plan.d.type, DataType::kF32);
  EXPECT_EQ(plan.d.matrices, 2 * 3);
  EXPECT_EQ(plan.d.lines, 100);
  EXPECT_EQ(plan.d.matrix_bytes, 100 * plan.d.pitch_bytes);
  EXPECT_EQ(plan.partials_bytes, 6 * plan.d.matrix_bytes);
  EXPECT_EQ(plan.grid, 2 * 3);
  EXPECT_GE(plan.reduce_grid, 1);
}

// Alpha and scales meet no empty product: infinity times zero is not zero.
TEST(LaunchArithmetic, AnEmptyProductIsNotScaled) {
  Problem problem = Asymmetric();
  problem.k = 0;
  problem.alpha = std::numeric_limits<float>::infinity();
  problem.beta = 2;
  problem.epilogue.a_scale = Extent::kRow;
  const Plan plan = ChoosePlan(problem, {});
  EXPECT_EQ(plan.grid, 0);
  EXPECT_EQ(plan.splits, 0);
  EXPECT_GE(plan.reduce_grid, 1);
  EXPECT_FALSE(plan.family.epilogue.alpha);
  EXPECT_EQ(plan.family.epilogue.row_scale, Extent::kNone);
  EXPECT_TRUE(plan.family.epilogue.reads_c);
}

TEST(LaunchArithmetic, F32TakesSixPassesOverItsPlanes) {
  Problem problem = Asymmetric();
  problem.a_type = problem.b_type = problem.c_type = problem.d_type =
      DataType::kF32;
  for (const Plan& plan : RankPlans(problem, {}, 1 << 20)) {
    EXPECT_EQ(plan.a_form, Form::kSplit);
    EXPECT_EQ(plan.b_form, Form::kSplit);
    EXPECT_EQ(plan.family.instruction.x, DataType::kBf16);
    EXPECT_EQ(plan.passes, 6);
    EXPECT_EQ(plan.x.matrices, 3);
    EXPECT_EQ(plan.x.type, DataType::kBf16);
    // Low times high, high times low, and so on to high times high, whichever
    // of A and B is X.
    const uint32_t a = plan.exchanged ? plan.y_planes : plan.x_planes;
    const uint32_t b = plan.exchanged ? plan.x_planes : plan.y_planes;
    EXPECT_EQ(a, 2u | 0u << 2 | 1u << 4 | 1u << 6);
    EXPECT_EQ(b, 0u | 2u << 2 | 1u << 4 | 0u << 6 | 1u << 8);
  }
}

TEST(LaunchArithmetic, OperandsThatMustBeKMajorAreTransposed) {
  Problem problem = Asymmetric();  // B is n-major.
  problem.a_type = problem.b_type = DataType::kS8;
  problem.c_type = problem.d_type = problem.accumulator = DataType::kS32;
  const Plan plan = ChoosePlan(problem, {});
  EXPECT_EQ(plan.a_form, Form::kStored);
  EXPECT_EQ(plan.b_form, Form::kTransposed);
  const TensorMapSpec& b = plan.exchanged ? plan.x : plan.y;
  EXPECT_EQ(b.width, 300);
  EXPECT_EQ(b.lines, 700);
  EXPECT_EQ(b.box_width, 128);
  EXPECT_EQ(plan.stages, 3);
}

TEST(LaunchArithmetic, BitsTravelAsBytes) {
  Problem problem = {.m = 64, .n = 64, .k = 1030};
  problem.a_type = problem.b_type = DataType::kB1;
  problem.b_order = Order::kColumnMajor;
  problem.c_type = problem.d_type = problem.accumulator = DataType::kS32;
  const Plan plan = ChoosePlan(problem, {});
  EXPECT_EQ(plan.x.width, 129);
  EXPECT_EQ(plan.x.box_width, 128);
  EXPECT_EQ(plan.stages, 2);
}

TEST(LaunchArithmetic, AnExclusiveOrHasRoomForTheBitsOfEveryLine) {
  const Problem problem = {.m = 100,
                           .n = 70,
                           .k = 300,
                           .a_type = DataType::kB1,
                           .b_type = DataType::kB1,
                           .d_type = DataType::kS32,
                           .b_order = Order::kColumnMajor,
                           .accumulator = DataType::kS32,
                           .bit_operation = BitOperation::kXor,
                           .batch = 3,
                           .b_broadcast = true};
  const Plan plan = ChoosePlan(problem, {});
  EXPECT_TRUE(plan.family.epilogue.exclusive_or);
  EXPECT_EQ(plan.line_bits_bytes, 4 * (3 * 100 + 70));
  EXPECT_EQ(plan.line_bits_grid, 47) << "eight lines each";
}

}  // namespace
}  // namespace gemmd::jit
