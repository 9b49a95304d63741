// The parts of the device code that are plain arithmetic, compiled for the
// host: tile sizes agree with the planner's, the raster visits every tile
// once, parts of k cover it.
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "common/tiling.h"
#include "jit/plan/tiling.h"
#include "scheduler/raster.h"

namespace gemmd {
namespace {

template <typename D, int kM, int kN, int kWarpgroups, Schedule kSched,
          Store kStored, bool kSplit>
struct TestConfig {
  using Input = BFloat16;
  using Output = D;
  static constexpr int kTileM = kM;
  static constexpr int kTileN = kN;
  static constexpr int kTileK = 64;
  static constexpr int kStages = 3;
  static constexpr int kConsumers = kWarpgroups;
  static constexpr int kSharedMemoryBytes = 0;
  static constexpr Schedule kSchedule = kSched;
  static constexpr Store kStore = kStored;
  static constexpr Major kXMajor = Major::kK;
  static constexpr Major kYMajor = Major::kK;
  static constexpr bool kReadsC = true;
  static constexpr bool kSplitK = kSplit;
};

template <typename C>
void ExpectSameTiling() {
  using T = Tiling<C>;
  const jit::Family family = {
      .output = sizeof(typename C::Output) == 4 ? jit::DataType::kF32
                                                : jit::DataType::kBf16,
      .store = C::kStore == Store::kTransposed ? jit::Store::kTransposed
                                               : jit::Store::kNormal};
  const jit::Config config = {.tile_m = C::kTileM,
                              .tile_n = C::kTileN,
                              .stages = C::kStages,
                              .consumers = C::kConsumers,
                              .schedule = C::kSchedule == Schedule::kPingPong
                                              ? jit::Schedule::kPingPong
                                              : jit::Schedule::kCooperative,
                              .split_k = C::kSplitK};
  EXPECT_EQ(T::kSlabColumns, jit::SlabColumns(family, config));
  EXPECT_EQ(T::kThreads, jit::Threads(config));
  EXPECT_EQ(T::kBlocks * C::kTileN / 2, jit::Accumulators(config));
  EXPECT_EQ(T::kStagingBytes, jit::SharedMemoryBytes(family, config) -
                                  C::kStages * jit::StageBytes(family, config) -
                                  16 * (C::kStages + C::kConsumers + 1));
}

TEST(Tiling, HostAndDeviceAgree) {
  constexpr auto kPp = Schedule::kPingPong;
  constexpr auto kCo = Schedule::kCooperative;
  constexpr auto kN = Store::kNormal;
  constexpr auto kT = Store::kTransposed;
  ExpectSameTiling<TestConfig<BFloat16, 128, 200, 2, kPp, kT, false>>();
  ExpectSameTiling<TestConfig<BFloat16, 128, 192, 2, kPp, kN, false>>();
  ExpectSameTiling<TestConfig<float, 128, 208, 2, kPp, kT, false>>();
  ExpectSameTiling<TestConfig<float, 128, 160, 2, kPp, kN, false>>();
  ExpectSameTiling<TestConfig<BFloat16, 128, 256, 2, kCo, kT, false>>();
  ExpectSameTiling<TestConfig<BFloat16, 256, 128, 2, kCo, kN, true>>();
  ExpectSameTiling<TestConfig<BFloat16, 64, 8, 1, kCo, kN, false>>();
  ExpectSameTiling<TestConfig<BFloat16, 64, 56, 1, kCo, kT, true>>();
}

TEST(Raster, VisitsEveryTileOnce) {
  for (const int rows : {1, 64, 65, 1000, 2048}) {
    for (const int columns : {1, 200, 201, 3000}) {
      for (const int group : {1, 3, 8, 40}) {
        const Raster<64, 200> raster(rows, columns, group);
        EXPECT_EQ(raster.count(), DivideUp(rows, 64) * DivideUp(columns, 200));
        std::set<std::pair<int, int>> seen;
        for (int i = 0; i < raster.count(); ++i) {
          const Tile tile = raster.At(i);
          EXPECT_EQ(tile.row % 64, 0);
          EXPECT_EQ(tile.column % 200, 0);
          EXPECT_LT(tile.row, rows);
          EXPECT_LT(tile.column, columns);
          EXPECT_TRUE(seen.emplace(tile.row, tile.column).second);
        }
      }
    }
  }
}

TEST(Raster, WalksAGroupColumnByColumn) {
  const Raster<64, 64> raster(64 * 5, 64 * 2, 2);
  const int rows[] = {0, 1, 0, 1, 2, 3, 2, 3, 4, 4};
  const int columns[] = {0, 0, 1, 1, 0, 0, 1, 1, 0, 1};
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(raster.At(i).row, 64 * rows[i]) << i;
    EXPECT_EQ(raster.At(i).column, 64 * columns[i]) << i;
  }
}

TEST(PartOf, CoversAllStagesOnce) {
  for (const int stages : {1, 7, 8, 128, 129}) {
    for (const int parts : {1, 2, 7, 16}) {
      int next = 0;
      for (int i = 0; i < parts; ++i) {
        const Part part = PartOf(stages, parts, i);
        EXPECT_EQ(part.first, next);
        EXPECT_GE(part.count, 0);
        next += part.count;
      }
      EXPECT_EQ(next, stages);
    }
  }
}

}  // namespace
}  // namespace gemmd
