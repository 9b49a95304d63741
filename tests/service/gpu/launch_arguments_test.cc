// What kernels are told beside where their operands lie.
#include <gtest/gtest.h>

#include <limits>

#include "service/gpu/launch.h"
#include "tests/service/gpu/fake_driver.h"

namespace gemmd::gpu {
namespace {

constexpr int kNoLine = std::numeric_limits<int>::max();

class LaunchArgumentsTest : public testing::Test {
 protected:
  LaunchArgumentsTest() {
    problem_.m = 11;
    problem_.n = 12;
    problem_.k = 13;
    plan_.rows = 200;
    plan_.columns = 300;
    plan_.depth = 13;
    plan_.stages = 9;
    plan_.x = plan_.y = plan_.c = plan_.d = plan_.metadata = {
        .width = 21, .lines = 7, .pitch_bytes = 64, .matrix_bytes = 448};
  }

  PreparedLaunch Prepare() {
    fake_.maps.clear();
    return *PrepareLaunch(*fake_.table(), problem_, plan_, {}, memory_);
  }
  uint64_t Mapped(const TensorMap& map) {
    return fake_.MapOf(map.bytes).pointer;
  }

  FakeDriver fake_;
  LaunchMemory memory_ = {.a = 0x1000,
                          .b = 0x2000,
                          .metadata = 0x2800,
                          .c = 0x3000,
                          .d = 0x4000,
                          .partials = 0x5000,
                          .auxiliary = 0xa000};
  jit::Problem problem_;
  jit::Plan plan_;
};

// C may have another type than D, and as many lines in each of its matrices.
TEST_F(LaunchArgumentsTest, CIsReadInItsOwnElements) {
  plan_.family.epilogue.reads_c = true;
  problem_.c_type = jit::DataType::kF32;
  problem_.batch = 3;
  const EpilogueArguments epilogue = Prepare().arguments.epilogue;
  EXPECT_EQ(epilogue.c_pitch, problem_.c().pitch_bytes() / 4);
  EXPECT_EQ(epilogue.c_matrix, 11 * epilogue.c_pitch);
}

TEST_F(LaunchArgumentsTest, LastTilesOverlapThoseBefore) {
  Arguments arguments = Prepare().arguments;
  EXPECT_EQ(arguments.last_row, 80) << "72, to boxes of 16 bytes";
  EXPECT_EQ(arguments.last_column, 176);
  plan_.family.x_major = Major::kMn;
  arguments = Prepare().arguments;
  EXPECT_EQ(arguments.last_row, 128) << "to lines of the cache";
  EXPECT_EQ(arguments.last_column, 176);
}

TEST_F(LaunchArgumentsTest, LastTilesOfBytesBeginAtSectors) {
  plan_.family.epilogue.output = jit::DataType::kE4m3;
  const Arguments arguments = Prepare().arguments;
  EXPECT_EQ(arguments.last_row, 96) << "72, to 32 bytes of D";
  EXPECT_EQ(arguments.last_column, 192);
}

TEST_F(LaunchArgumentsTest, LinesInBlocksAreMadeOnce) {
  plan_.family.instruction.sparse = true;
  PreparedLaunch launch = Prepare();
  EXPECT_EQ(Mapped(launch.arguments.metadata), memory_.metadata);
  EXPECT_EQ(launch.arguments.last_row, kNoLine);
  EXPECT_EQ(launch.arguments.last_column, 176);

  plan_.family.instruction.sparse = false;
  plan_.family.widening = jit::Widening();
  launch = Prepare();
  EXPECT_EQ(launch.arguments.last_row, kNoLine);
  EXPECT_EQ(launch.arguments.last_column, 176);

  plan_.family.widening.reset();
  plan_.family.sum = jit::Summation::kBlockScaled;
  launch = Prepare();
  EXPECT_EQ(launch.arguments.last_row, 80);
  EXPECT_EQ(launch.arguments.last_column, kNoLine);
}

// It would be read again after it was written.
TEST_F(LaunchArgumentsTest, WhereDIsCAllIsMadeOnce) {
  plan_.family.epilogue.reads_c = true;
  EXPECT_EQ(Prepare().arguments.last_row, 80);
  memory_.c = memory_.d;
  const Arguments arguments = Prepare().arguments;
  EXPECT_EQ(arguments.last_row, kNoLine);
  EXPECT_EQ(arguments.last_column, kNoLine);
}

TEST_F(LaunchArgumentsTest, GroupsOfWeightsLieBehindTheirFragments) {
  EXPECT_EQ(Mapped(Prepare().arguments.x), memory_.a);
  plan_.groups_at = 0x200;
  EXPECT_EQ(Mapped(Prepare().arguments.metadata), memory_.a + 0x200);
}

TEST_F(LaunchArgumentsTest, AReductionWritesTheMatricesOfABatch) {
  plan_.config.split_k = plan_.family.epilogue.auxiliary = true;
  plan_.splits = 2;
  plan_.batch = 3;
  problem_.batch = 3;
  problem_.d_type = jit::DataType::kBf16;
  const PreparedLaunch launch = Prepare();
  const ReduceArguments& reduction = launch.reduce_arguments;
  EXPECT_EQ(reduction.matrices, 3);
  EXPECT_EQ(reduction.lines.value, 11u) << "of each of them";
  EXPECT_EQ(reduction.pitch, problem_.d().pitch_bytes() / 2);
  EXPECT_EQ(reduction.auxiliary, reinterpret_cast<void*>(memory_.auxiliary));
  EXPECT_EQ(fake_.maps.size(), 3u) << "the kernel of parts has none of it";
}

// A batch over one B is one product, with all lines of A.
TEST_F(LaunchArgumentsTest, AReductionWritesAllLinesOfAFoldedBatch) {
  plan_.config.split_k = true;
  problem_.batch = 3;
  problem_.b_broadcast = true;
  const PreparedLaunch launch = Prepare();
  EXPECT_EQ(launch.reduce_arguments.lines.value, 33u);
  EXPECT_EQ(launch.reduce_arguments.matrices, 1);
}

TEST_F(LaunchArgumentsTest, WhatServesABatchIsOneMatrix) {
  problem_.batch = 3;
  plan_.batch = 3;
  problem_.d_order = jit::Order::kColumnMajor;  // So that it is not folded.
  problem_.b_broadcast = true;
  for (const bool exchanged : {false, true}) {
    plan_.exchanged = exchanged;
    const Arguments arguments = Prepare().arguments;
    EXPECT_EQ(arguments.x_matrices, exchanged ? 1 : 3);
    EXPECT_EQ(arguments.y_matrices, exchanged ? 3 : 1);
  }
}

TEST_F(LaunchArgumentsTest, PartsShareThePassesOverK) {
  plan_.passes = 3;
  plan_.splits = 2;
  const Arguments arguments = Prepare().arguments;
  EXPECT_EQ(arguments.part_stages, 13);
  EXPECT_EQ(arguments.longer_parts, 1);
}

TEST_F(LaunchArgumentsTest, BitsOfOneMatrixServeABatch) {
  plan_.family.epilogue.exclusive_or = true;
  plan_.y.matrices = 3;
  const EpilogueArguments epilogue = Prepare().arguments.epilogue;
  EXPECT_EQ(epilogue.row_bits_matrix, 0);
  EXPECT_EQ(epilogue.column_bits_matrix, 7);
}

}  // namespace
}  // namespace gemmd::gpu
