// Every plan is launchable, whatever the shape; the cost model ranks the
// configs that measurements on an H100 found fastest first.
#include "jit/plan/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "jit/plan/launch_arithmetic.h"
#include "jit/plan/tiling.h"
#include "jit/problem/problem_line.h"

namespace gemmd::jit {
namespace {

Problem Line(const std::string& line) {
  absl::StatusOr<Problem> problem = ParseProblemLine(line);
  EXPECT_TRUE(problem.ok()) << problem.status();
  return *problem;
}

void ExpectBox(const TensorMapSpec& map) {
  EXPECT_GE(map.box_width, 1);
  EXPECT_LE(map.box_width, 256);
  EXPECT_LE(map.box_lines, 256);
  EXPECT_EQ(map.pitch_bytes % 16, 0);
  const int bytes = map.type == DataType::kB1 ? 1 : BytesOf(map.type);
  EXPECT_GE(map.pitch_bytes, map.width * bytes);
  EXPECT_EQ(map.matrix_bytes, map.lines * map.pitch_bytes);
  const int box_bytes = map.box_width * bytes;
  EXPECT_EQ(box_bytes, map.swizzle_bytes == 0 ? 16 : map.swizzle_bytes);
}

void ExpectLaunchable(const Problem& problem, const Plan& plan) {
  SCOPED_TRACE(DebugString(problem) + " " +
               KernelName(plan.family, plan.config));
  const DeviceProperties device;
  EXPECT_LE(plan.shared_memory_bytes, device.shared_memory_bytes);
  EXPECT_GE(plan.config.stages, 2);
  EXPECT_EQ(plan.config.tile_n % 8, 0);
  EXPECT_LE(SumRegisters(plan.family, plan.config), 208);
  EXPECT_TRUE(IsLegalN(plan.family.instruction, plan.config.tile_n));
  EXPECT_LE(plan.grid, device.multiprocessors);
  EXPECT_GE(plan.raster_group, 1);
  EXPECT_EQ(plan.rows, plan.exchanged ? problem.n : problem.m);
  EXPECT_EQ(plan.depth, problem.reads_ab() ? problem.k : 0);
  EXPECT_TRUE(SharesK(plan.config) || plan.splits == 1);
  EXPECT_EQ(plan.reduce_grid > 0, plan.config.split_k);
  EXPECT_EQ(plan.grid > 0, problem.reads_ab());
  EXPECT_EQ(plan.splits > 0, problem.reads_ab());
  if (!problem.reads_ab()) return;
  ExpectBox(plan.x);
  ExpectBox(plan.y);
  ExpectBox(plan.d);
  if (StagesC(plan.family, plan.config)) ExpectBox(plan.c);
  EXPECT_GE(plan.d.width, problem.d().width());
  if (plan.config.split_k) {
    // No part is empty; each has its own matrix in the workspace.
    EXPECT_LE(plan.splits, plan.stages * plan.passes);
    EXPECT_EQ(plan.d.matrices, plan.splits * plan.batch);
    EXPECT_EQ(plan.partials_bytes, plan.d.matrices * plan.d.matrix_bytes);
  }
}

TEST(Planner, EveryShapeHasLaunchablePlans) {
  const int64_t sizes[] = {1, 7, 8, 63, 64, 65, 129, 1000, 4097, 100003};
  const int64_t depths[] = {0, 1, 24, 65, 4096, 65536};
  for (const int64_t m : sizes) {
    for (const int64_t n : sizes) {
      for (const int64_t k : depths) {
        for (const DataType d : {DataType::kBf16, DataType::kF32}) {
          Problem problem{.m = m, .n = n, .k = k, .d_type = d};
          problem.a_order = m % 2 ? Order::kRowMajor : Order::kColumnMajor;
          problem.b_order = k % 3 ? Order::kRowMajor : Order::kColumnMajor;
          problem.d_order = n % 2 ? Order::kRowMajor : Order::kColumnMajor;
          problem.c_type = d;
          problem.beta = k % 2 ? 1.0f : 0.0f;
          for (const Plan& plan : RankPlans(problem, {}, 4)) {
            ExpectLaunchable(problem, plan);
          }
        }
      }
    }
  }
}

// D's contiguous dimension is the instruction's m or n side, depending on
// which operand is X.
TEST(Planner, StoreFollowsOrderAndExchange) {
  for (const Order order : {Order::kRowMajor, Order::kColumnMajor}) {
    const Problem problem{.m = 512, .n = 768, .k = 256, .d_order = order};
    for (const Plan& plan : RankPlans(problem, {}, 100)) {
      const bool contiguous_rows =
          (order == Order::kRowMajor) == plan.exchanged;
      EXPECT_EQ(plan.family.epilogue.store,
                contiguous_rows ? Store::kTransposed : Store::kNormal);
    }
  }
}

// Slabs that overlap let tiles have any width, but where D is C the second one
// would read what the first has written.
TEST(Planner, SlabsOverlapOnlyWhereNothingIsReadBack) {
  const auto overlaps = [](const char* line) {
    int count = 0;
    for (const Plan& plan : RankPlans(Line(line), {}, 1 << 20)) {
      const Config& config = plan.config;
      count += !config.split_k &&  // Whose reduction reads C.
               config.tile_n % SlabColumns(plan.family, config) != 0;
    }
    return count;
  };
  for (const std::string order : {"", " order=row"}) {
    EXPECT_GT(overlaps(("bf16 TN 600 4096 16384" + order).c_str()), 0);
    EXPECT_EQ(overlaps(("bf16 TN 600 4096 16384 beta=1" + order).c_str()), 0);
  }
}

// 600 rows are four tiles of 152, and those with 4096 columns fill the GPU.
TEST(Planner, TilesMayHaveTheWidthThatTheProblemAsksFor) {
  bool found = false;
  for (const Plan& plan : RankPlans(Line("bf16 TT 600 4096 16384"), {}, 100)) {
    found = found || plan.config.tile_n == 152;
  }
  EXPECT_TRUE(found);
}

// Sides up to the largest, most of which have no room anywhere: nothing that is
// valid overflows on the way.
TEST(Planner, WhatIsValidIsPlanned) {
  std::minstd_rand random(1);
  int planned = 0;
  while (planned < 1000) {
    const auto side = [&] {
      const int64_t power = int64_t{1} << (random() % 32);
      return std::clamp<int64_t>(power + random() % 3 - 1, 1, kMaxDimension);
    };
    Problem problem = {.m = side(), .n = side(), .k = side()};
    problem.batch = side();
    if (random() % 4 == 0) {
      problem.a_type = problem.b_type = problem.c_type = DataType::kF32;
      problem.d_type = DataType::kF32;
    }
    if (!Validate(problem).ok()) continue;
    ++planned;
    const Plan plan = ChoosePlan(problem, {});
    EXPECT_TRUE(std::isfinite(plan.predicted_cycles)) << DebugString(problem);
    EXPECT_GE(plan.predicted_cycles, 0) << DebugString(problem);
    EXPECT_GE(plan.grid, 0) << DebugString(problem);
    EXPECT_LE(Units(plan), std::numeric_limits<int>::max())
        << DebugString(problem);
  }
}

TEST(Planner, OperandsKeepTheirMajor) {
  // Row-major A is k-major, row-major B is n-major.
  const Problem problem{.m = 512, .n = 768, .k = 256};
  for (const Plan& plan : RankPlans(problem, {}, 100)) {
    const Family& family = plan.family;
    EXPECT_EQ(plan.exchanged ? family.y_major : family.x_major, Major::kK);
    EXPECT_EQ(plan.exchanged ? family.x_major : family.y_major, Major::kMn);
  }
}

TEST(Planner, RanksByPredictedTime) {
  const std::vector<Plan> plans =
      RankPlans(Line("bf16 TN 3001 3001 3001"), {}, 50);
  ASSERT_EQ(plans.size(), 50u);
  for (size_t i = 1; i < plans.size(); ++i) {
    EXPECT_LE(plans[i - 1].predicted_us, plans[i].predicted_us);
  }
}

TEST(Planner, ChoosesTheBestRanked) {
  for (const char* line : {"bf16 TN 8192 8192 8192", "f16 NT 300 200 100",
                           "bf16 NN 512 512 8192"}) {
    const Problem problem = Line(line);
    const Plan best = RankPlans(problem, {}, 1)[0];
    const Plan chosen = ChoosePlan(problem, {});
    EXPECT_EQ(KernelName(chosen.family, chosen.config),
              KernelName(best.family, best.config));
    EXPECT_EQ(chosen.exchanged, best.exchanged);
  }
}

TEST(PlanWith, RunsAnyShapeOfTheFamily) {
  const Plan large = ChoosePlan(Line("bf16 TN 8192 8192 8192"), {});
  const Problem small = Line("bf16 TN 100 200 64");
  const auto plan = PlanWith(small, {}, large.family, large.config);
  ASSERT_TRUE(plan.has_value());
  EXPECT_TRUE(plan->config == large.config);
  ExpectLaunchable(small, *plan);
  EXPECT_FALSE(
      PlanWith(Line("bf16 NT 100 200 64"), {}, large.family, large.config));
  Config split = large.config;
  split.split_k = true;
  EXPECT_FALSE(PlanWith(small, {}, large.family, split));
}

TEST(Planner, ABatchWithOneWeightIsPlannedAsTheProductThatItIs) {
  const Plan batch = ChoosePlan(
      Line("bf16 TN 1 4096 4096 order=row batch=1024 broadcast=b"), {});
  const Plan one = ChoosePlan(Line("bf16 TN 1024 4096 4096 order=row"), {});
  EXPECT_EQ(batch.config, one.config);
  EXPECT_EQ(batch.rows * batch.columns, int64_t{1024} * 4096);
  EXPECT_EQ(batch.batch, 1);
  EXPECT_EQ(batch.x.lines * batch.y.lines, one.x.lines * one.y.lines);
  EXPECT_EQ(batch.d.lines, one.d.lines);
  EXPECT_EQ(batch.predicted_us, one.predicted_us);
}

TEST(Planner, FitsTilesToWaves) {
  const Plan large = ChoosePlan(Line("bf16 TN 8192 8192 8192"), {});
  EXPECT_GE(large.config.tile_m * large.config.tile_n, 128 * 192);
  // mn-major tiles come in slabs of 64.
  const Plan slabs = ChoosePlan(Line("bf16 NT 8192 8192 8192"), {});
  EXPECT_EQ(slabs.config.tile_n % 64, 0);
}

TEST(Planner, ProductsAreBriefForLongerWhereMoreShareK) {
  bool seen[3][2] = {};
  for (const char* line :
       {"bf16 TN 64 64 64", "bf16 TN 16 512 4096", "bf16 TN 16 512 30000",
        "bf16 TN 2048 2048 2048", "bf16-s4 TN 16 8192 8192 group=128",
        "bf16-s4 TN 4096 8192 8192 group=128"}) {
    for (const Plan& plan : RankPlans(Line(line), {}, 300)) {
      const bool interleaved = plan.config.schedule == Schedule::kInterleaved;
      const int sharing = interleaved ? 2 : SharesK(plan.config) ? 1 : 0;
      constexpr double kMost[] = {4000, 10000, 60000};
      EXPECT_EQ(plan.brief, plan.predicted_cycles < kMost[sharing]) << line;
      seen[sharing][plan.brief] = true;
    }
  }
  for (const auto& [no, yes] : seen) EXPECT_TRUE(no && yes);
}

TEST(Planner, ConsumersShareKOfWeightsAndFewColumns) {
  const auto schedule = [](const char* line) {
    return ChoosePlan(Line(line), {}).config.schedule;
  };
  for (const char* line :
       {"bf16-s4 TN 1 8192 8192 group=128", "bf16-s4 TN 16 8192 8192 group=128",
        "bf16-s4 TN 64 8192 8192 group=128",
        "u4-f16 TN 8192 8 8192 group=32 zero_points"}) {
    EXPECT_EQ(schedule(line), Schedule::kInterleaved) << line;
    EXPECT_TRUE(ChoosePlan(Line(line), {}).brief) << line;
  }
  for (const char* line :
       {"bf16-s4 TN 4096 8192 8192 group=128", "bf16 TN 16 8192 8192",
        "sparse-bf16 TN 8192 16 8192"}) {
    EXPECT_NE(schedule(line), Schedule::kInterleaved) << line;
  }
}

// No kernel passes sums on that widens, or leaves sums to a reduction.
TEST(Planner, OnlySumsThatMayBePassedOnAreBalanced) {
  const auto balanced = [](const char* line) {
    const std::vector<Plan> plans = RankPlans(Line(line), {}, 10000);
    return std::ranges::count_if(
        plans, [](const Plan& plan) { return plan.config.balanced; });
  };
  EXPECT_GT(balanced("bf16 TT 1111 4096 4096 d=f32"), 0);
  EXPECT_EQ(balanced("bf16-e4m3 TT 1111 4096 4096 d=f32"), 0);
  EXPECT_EQ(balanced("bf16 TT 1111 4096 4096 c=f32 beta=1"), 0);
}

TEST(Planner, InterleavedSumsAreOthersThanThoseOfTheFamily) {
  Problem problem = Line("bf16-s4 TN 16 8192 8192 group=128");
  for (const Plan& plan : RankPlans(problem, {}, 1000)) {
    EXPECT_LE(plan.shared_memory_bytes, DeviceProperties().shared_memory_bytes);
    if (plan.config.schedule == Schedule::kInterleaved) {
      EXPECT_FALSE(plan.config.split_k);
      EXPECT_EQ(plan.splits, plan.config.consumers);
      EXPECT_EQ(plan.config.stages % plan.config.consumers, 0);
      EXPECT_GE(plan.config.stages / plan.config.consumers, 2);
      EXPECT_EQ(plan.grid, std::min<int64_t>(132, Tiles(plan)));
      EXPECT_EQ(plan.partials_bytes, 0);
    }
    EXPECT_EQ(PlanWith(problem, {}, plan.family, plan.config).has_value(),
              plan.splits == 1);
  }
  problem.invariant = true;
  for (const Plan& plan : RankPlans(problem, {}, 1000)) {
    EXPECT_EQ(plan.splits, 1);
  }
}

TEST(Planner, ClustersShareKOfFewTiles) {
  for (const char* line :
       {"bf16 TN 16 1024 4096", "bf16 NT 1 256 4096", "e4m3 TN 64 64 8192",
        "s8 TN 32 256 8192", "tf32 TN 128 64 4096", "f32 TN 16 64 4096",
        "bf16 TN 64 64 8192 d=f32 bias=row act=gelu aux amax"}) {
    const Plan plan = ChoosePlan(Line(line), {});
    EXPECT_GT(plan.config.cluster, 1) << line;
    EXPECT_EQ(plan.reduce_grid, 0) << line;
  }
  // Enough tiles; a C, which one CTA would read; sums that are no words.
  for (const char* line :
       {"bf16 TN 4096 4096 4096", "bf16 TN 16 64 64",
        "bf16 TN 64 64 8192 beta=1", "f16-f16 TN 64 64 8192"}) {
    EXPECT_EQ(ChoosePlan(Line(line), {}).config.cluster, 1) << line;
  }
}

// Of an H200: cuOccupancyMaxActiveClusters.
TEST(Planner, AllClustersOfAPlanRunAtOnce) {
  const std::map<int, int> at_once = {{2, 66}, {3, 37}, {4, 30},
                                      {5, 22}, {8, 15}, {16, 7}};
  std::set<int> seen;
  for (const char* line : {"bf16 NT 96 384 16384", "s8 TN 1 8192 1024",
                           "e4m3 TN 1900 16 4096", "bf16 TN 8 8 700"}) {
    Problem problem = Line(line);
    for (const Plan& plan : RankPlans(problem, {}, 100000)) {
      const int cluster = plan.config.cluster;
      if (cluster == 1) continue;
      seen.insert(cluster);
      EXPECT_LE(Tiles(plan), at_once.at(cluster)) << line;
      EXPECT_EQ(plan.grid, Tiles(plan) * cluster) << line;
      EXPECT_EQ(plan.splits, cluster);
      EXPECT_LE(cluster, plan.stages) << line;
      EXPECT_FALSE(plan.config.split_k);
      EXPECT_EQ(plan.partials_bytes, 0);
      EXPECT_LE(plan.shared_memory_bytes,
                DeviceProperties().shared_memory_bytes);
      EXPECT_FALSE(PlanWith(problem, {}, plan.family, plan.config));
    }
    problem.invariant = true;
    for (const Plan& plan : RankPlans(problem, {}, 1000)) {
      EXPECT_EQ(plan.config.cluster, 1);
    }
  }
  EXPECT_EQ(seen.size(), at_once.size());
}

// Pairs of tiles below each other, of CTAs that each load half of Y.
TEST(Planner, CtasLoadYForEachOther) {
  int seen = 0;
  for (const char* line :
       {"bf16 TN 4096 8392 40", "bf16 NT 8192 136 1024", "e4m3 TN 129 8 8192",
        "s8 TN 1000 1000 1000 batch=3", "f32 TN 384 264 4096"}) {
    const Problem problem = Line(line);
    for (const Plan& plan : RankPlans(problem, {}, 100000)) {
      const Config& config = plan.config;
      if (config.multicast == 1) continue;
      ++seen;
      ASSERT_EQ(config.multicast, 2);
      EXPECT_EQ(config.cluster, 1);
      EXPECT_GT(plan.rows, config.tile_m) << line;
      EXPECT_EQ(plan.grid % 2, 0);
      EXPECT_LE(plan.grid, 132);
      EXPECT_EQ(plan.grid, 2 * std::min<int64_t>(66, Units(plan))) << line;
      EXPECT_GE(TileRows(plan) * 2 * config.tile_m, plan.rows);
      const int y_lines = plan.family.y_major == Major::kK ? config.tile_n : 64;
      EXPECT_EQ(plan.y.box_lines * 2, y_lines) << line;
      EXPECT_LE(plan.shared_memory_bytes,
                DeviceProperties().shared_memory_bytes);
      const auto with = PlanWith(problem, {}, plan.family, config);
      EXPECT_EQ(with.has_value(), plan.splits == 1);
    }
  }
  EXPECT_GT(seen, 100);
  // Sums of a kernel of the family serve any other of its shapes, of one tile
  // too.
  for (const Plan& plan : RankPlans(Line("bf16 TN 4096 8392 40"), {}, 1000)) {
    if (plan.config.multicast == 1) continue;
    const Problem small = Line("bf16 TN 10 20 64");
    const auto with = PlanWith(small, {}, plan.family, plan.config);
    ASSERT_TRUE(with.has_value());
    EXPECT_EQ(with->grid, 2);
    return;
  }
  FAIL() << "none";
}

TEST(Planner, SplitsLongSumsOfFewTiles) {
  EXPECT_GT(ChoosePlan(Line("bf16 TN 512 512 8192"), {}).splits, 1);
  EXPECT_EQ(ChoosePlan(Line("bf16 TN 8192 8192 8192"), {}).splits, 1);
  EXPECT_EQ(ChoosePlan(Line("bf16 TN 512 512 64"), {}).splits, 1);
}

}  // namespace
}  // namespace gemmd::jit
