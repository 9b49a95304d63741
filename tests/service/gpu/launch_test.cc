#include "service/gpu/launch.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/service/gpu/fake_driver.h"

namespace gemmd::gpu {
namespace {

constexpr LaunchMemory kMemory = {.a = 0x1000,
                                  .b = 0x2000,
                                  .c = 0x3000,
                                  .d = 0x4000,
                                  .partials = 0x5000,
                                  .pass_flags = 0x5800,
                                  .bias = 0x6000,
                                  .a_scale = 0x7000,
                                  .b_scale = 0x8000,
                                  .d_scale = 0x9000,
                                  .auxiliary = 0xa000,
                                  .amax = 0xb000,
                                  .line_bits = 0xc000};

const void* Host(CUdeviceptr pointer) {
  return reinterpret_cast<const void*>(pointer);
}

jit::TensorMapSpec Spec(int64_t width) {
  return {.type = jit::DataType::kBf16,
          .width = width,
          .lines = 7,
          .pitch_bytes = 64,
          .matrices = 2,
          .matrix_bytes = 448,
          .box_width = 16,
          .box_lines = 8,
          .swizzle_bytes = 128};
}

jit::Plan MakePlan() {
  jit::Plan plan;
  plan.rows = 11;
  plan.columns = 12;
  plan.depth = 13;
  plan.raster_group = 3;
  plan.grid = 5;
  plan.stages = 9;
  plan.threads = 384;
  plan.shared_memory_bytes = 40000;
  plan.x = Spec(21);
  plan.y = Spec(22);
  plan.c = Spec(23);
  plan.d = Spec(24);
  return plan;
}

jit::Problem MakeProblem() {
  jit::Problem problem;
  problem.m = 11;
  problem.n = 12;
  problem.k = 13;
  problem.alpha = 2.0f;
  problem.beta = 0.5f;
  return problem;
}

class LaunchTest : public testing::Test {
 protected:
  absl::StatusOr<PreparedLaunch> Prepare(const jit::Plan& plan) {
    return PrepareLaunch(*fake_.table(), MakeProblem(), plan, functions_,
                         kMemory);
  }
  // The map that was encoded as the given argument.
  const FakeDriver::EncodedMap& MapOf(const TensorMap& map) {
    return fake_.MapOf(map.bytes);
  }
  // What the driver received, enqueued as a daemon does.
  const std::vector<FakeDriver::Launch>& Launch(const jit::Plan& plan) {
    const auto launch = Prepare(plan);
    EXPECT_TRUE(launch.ok()) << launch.status();
    const absl::Status enqueued = Enqueue(*launch, *stream_);
    EXPECT_TRUE(enqueued.ok()) << enqueued;
    return fake_.launches;
  }

  FakeDriver fake_;
  const std::unique_ptr<Context> context_ = *Context::Create(fake_.table(), 0);
  const std::shared_ptr<Stream> stream_ = *Stream::Create(context_.get());
  const KernelFunctions functions_ = {
      .multiply = fake_.NewFunction("gemmd_kernel"),
      .reduce = fake_.NewFunction("gemmd_reduce"),
      .line_bits = fake_.NewFunction("gemmd_line_bits")};
};

TEST_F(LaunchTest, GivesAToXAndBToY) {
  const auto launch = Prepare(MakePlan());
  ASSERT_TRUE(launch.ok()) << launch.status();
  EXPECT_EQ(MapOf(launch->arguments.x).pointer, kMemory.a);
  EXPECT_EQ(MapOf(launch->arguments.x).width, 21u);
  EXPECT_EQ(MapOf(launch->arguments.y).pointer, kMemory.b);
  EXPECT_EQ(MapOf(launch->arguments.y).width, 22u);
  EXPECT_EQ(MapOf(launch->arguments.d).pointer, kMemory.d);
  EXPECT_EQ(MapOf(launch->arguments.d).width, 24u);
  EXPECT_EQ(launch->arguments.units, 1);
  EXPECT_EQ(launch->arguments.stages, 9);
  EXPECT_EQ(launch->arguments.part_stages, 9);
  EXPECT_EQ(launch->arguments.longer_parts, 0);
  EXPECT_EQ(launch->arguments.raster.group.value, 3u);
  EXPECT_EQ(launch->arguments.epilogue.rows, 11);
  EXPECT_EQ(launch->arguments.epilogue.columns, 12);
  EXPECT_EQ(launch->arguments.epilogue.alpha, 2.0f);
  EXPECT_EQ(launch->arguments.epilogue.beta, 0.5f);
}

TEST_F(LaunchTest, ExchangesOperandsWhenThePlanDoes) {
  jit::Plan plan = MakePlan();
  plan.exchanged = true;
  const auto launch = Prepare(plan);
  ASSERT_TRUE(launch.ok());
  EXPECT_EQ(MapOf(launch->arguments.x).pointer, kMemory.b);
  EXPECT_EQ(MapOf(launch->arguments.x).width, 21u);  // The spec is X's own.
  EXPECT_EQ(MapOf(launch->arguments.y).pointer, kMemory.a);
}

TEST_F(LaunchTest, EncodesCOnlyWhenItIsRead) {
  jit::Plan plan = MakePlan();
  ASSERT_TRUE(Prepare(plan).ok());
  EXPECT_EQ(fake_.maps.size(), 3u);
  plan.family.epilogue.reads_c = true;
  auto launch = Prepare(plan);
  ASSERT_TRUE(launch.ok());
  EXPECT_EQ(MapOf(launch->arguments.c).pointer, kMemory.c);
  // A C of another type is read by the epilogue itself.
  fake_.maps.clear();
  plan.family.epilogue.c = jit::DataType::kF32;
  launch = Prepare(plan);
  ASSERT_TRUE(launch.ok());
  EXPECT_EQ(fake_.maps.size(), 3u);
  EXPECT_EQ(launch->arguments.epilogue.c,
            reinterpret_cast<const void*>(kMemory.c));
}

TEST_F(LaunchTest, GivesTheEpilogueItsValues) {
  jit::Plan plan = MakePlan();
  for (const bool exchanged : {false, true}) {
    plan.exchanged = exchanged;
    const auto launch = Prepare(plan);
    ASSERT_TRUE(launch.ok()) << launch.status();
    const EpilogueArguments& epilogue = launch->arguments.epilogue;
    EXPECT_EQ(epilogue.row_scale,
              Host(exchanged ? kMemory.b_scale : kMemory.a_scale));
    EXPECT_EQ(epilogue.column_scale,
              Host(exchanged ? kMemory.a_scale : kMemory.b_scale));
    EXPECT_EQ(epilogue.bias, Host(kMemory.bias));
    EXPECT_EQ(epilogue.d_scale, Host(kMemory.d_scale));
    EXPECT_EQ(epilogue.amax, Host(kMemory.amax));
  }
}

TEST_F(LaunchTest, EncodesTheAuxiliaryOutputLikeD) {
  jit::Plan plan = MakePlan();
  plan.family.epilogue.auxiliary = true;
  const auto launch = Prepare(plan);
  ASSERT_TRUE(launch.ok()) << launch.status();
  const auto& map = MapOf(launch->arguments.auxiliary);
  EXPECT_EQ(map.pointer, kMemory.auxiliary);
  EXPECT_EQ(map.width, 24u) << "that of D";
}

TEST_F(LaunchTest, GivesBlockScalesWithTheirPitches) {
  jit::Plan plan = MakePlan();
  plan.family.sum = jit::Summation::kBlockScaled;
  jit::Problem problem = MakeProblem();
  problem.k = 300;
  problem.n = 1000;
  problem.epilogue.a_scale = problem.epilogue.b_scale = jit::Extent::kBlock;
  const auto launch =
      PrepareLaunch(*fake_.table(), problem, plan, functions_, kMemory);
  ASSERT_TRUE(launch.ok()) << launch.status();
  const BlockScales& scales = launch->arguments.scales;
  EXPECT_EQ(scales.x, Host(kMemory.a_scale));
  EXPECT_EQ(scales.y, Host(kMemory.b_scale));
  EXPECT_EQ(scales.x_pitch, 4) << "3 blocks of k, in words of 16 bytes";
  EXPECT_EQ(scales.y_pitch, 8) << "8 blocks of n";
}

TEST_F(LaunchTest, CountsTheBitsOfLinesBeforeAnExclusiveOr) {
  jit::Plan plan = MakePlan();
  plan.family.epilogue.exclusive_or = true;
  plan.line_bits_grid = 7;
  plan.y.matrices = 1;  // Broadcast.
  const auto& launches = Launch(plan);
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(launches[0].function, functions_.line_bits);
  EXPECT_EQ(launches[0].config.gridDimX, 7u);
  EXPECT_EQ(launches[0].config.blockDimX, unsigned{kLineBitsThreads});
  const auto counted = launches[0].argument<LineBitsArguments>();
  EXPECT_EQ(counted.x.from, Host(kMemory.a));
  EXPECT_EQ(counted.x.to, Host(kMemory.line_bits));
  EXPECT_EQ(counted.x.lines, 14);
  EXPECT_EQ(counted.x.width, 21);
  EXPECT_EQ(counted.x.pitch, 64);
  EXPECT_EQ(counted.y.from, Host(kMemory.b));
  EXPECT_EQ(counted.y.to, Host(kMemory.line_bits + 14 * sizeof(int)));
  EXPECT_EQ(counted.y.lines, 7);
  EXPECT_EQ(launches[1].function, functions_.multiply);
  const auto arguments = launches[1].argument<Arguments>().epilogue;
  EXPECT_EQ(arguments.row_bits, counted.x.to);
  EXPECT_EQ(arguments.column_bits, counted.y.to);
  EXPECT_EQ(arguments.row_bits_matrix, 7);
  EXPECT_EQ(arguments.column_bits_matrix, 0) << "one operand for all";
}

TEST_F(LaunchTest, AnEmptyProductIsAReductionWithoutParts) {
  jit::Plan plan = MakePlan();
  plan.depth = 0;
  plan.grid = 0;
  plan.splits = 0;
  plan.config.split_k = true;
  plan.reduce_grid = 4;
  const auto& launches = Launch(plan);
  EXPECT_TRUE(fake_.maps.empty());
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].function, functions_.reduce);
  EXPECT_EQ(launches[0].argument<ReduceArguments>().splits, 0);
}

TEST_F(LaunchTest, NamesTheSpecThatTheDriverRefuses) {
  jit::Plan plan = MakePlan();
  plan.d.pitch_bytes = 65;
  const auto launch = Prepare(plan);
  EXPECT_EQ(launch.status().code(), absl::StatusCode::kInternal);
  EXPECT_NE(launch.status().message().find("pitch 65 bytes"),
            absl::string_view::npos)
      << launch.status();
}

TEST_F(LaunchTest, EnqueuesOneGridWithAllItsArguments) {
  const auto& launches = Launch(MakePlan());
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].function, functions_.multiply);
  EXPECT_EQ(launches[0].config.gridDimX, 5u);
  EXPECT_EQ(launches[0].config.gridDimY, 1u);
  EXPECT_EQ(launches[0].config.gridDimZ, 1u);
  EXPECT_EQ(launches[0].config.blockDimX, 384u);
  EXPECT_EQ(launches[0].config.blockDimY, 1u);
  EXPECT_EQ(launches[0].config.blockDimZ, 1u);
  EXPECT_EQ(launches[0].config.sharedMemBytes, 40000u);
  EXPECT_EQ(launches[0].config.hStream, stream_->get());
  const auto arguments = launches[0].argument<Arguments>();
  EXPECT_EQ(MapOf(arguments.x).pointer, kMemory.a);
  EXPECT_EQ(MapOf(arguments.y).pointer, kMemory.b);
  EXPECT_EQ(MapOf(arguments.d).pointer, kMemory.d);
  EXPECT_EQ(arguments.units, 1);
  EXPECT_EQ(arguments.stages, 9);
  EXPECT_EQ(arguments.part_stages, 9);
  EXPECT_EQ(arguments.longer_parts, 0);
  EXPECT_EQ(arguments.raster.group.value, 3u);
  EXPECT_EQ(arguments.epilogue.rows, 11);
  EXPECT_EQ(arguments.epilogue.columns, 12);
  EXPECT_EQ(arguments.epilogue.alpha, 2.0f);
  EXPECT_EQ(arguments.epilogue.beta, 0.5f);
  EXPECT_EQ(arguments.splits.value, 1u);
}

// The CTAs of a product that is not brief lie as if it ran alone: it waits for
// the end of a grid that would let it be placed before.
TEST_F(LaunchTest, OnlyBriefProductsArePlacedBesideBriefOnes) {
  jit::Plan plan = MakePlan();
  const auto launch = [&](bool brief) {
    plan.brief = brief;
    return Launch(plan).back();
  };
  EXPECT_TRUE(launch(false).overlaps) << "the end of nothing";
  EXPECT_TRUE(launch(false).overlaps) << "the end of a long one";
  EXPECT_EQ(launch(false).argument<Arguments>().starts_next_early, 0);
  EXPECT_TRUE(launch(true).overlaps);
  EXPECT_TRUE(launch(true).overlaps);
  EXPECT_EQ(launch(true).argument<Arguments>().starts_next_early, 1);
  EXPECT_FALSE(launch(false).overlaps) << "it may not lie anywhere";
  EXPECT_TRUE(launch(false).overlaps);
}

TEST_F(LaunchTest, TheGridBehindAReductionIsPlacedAsTheProductBeforeItWas) {
  jit::Plan plan = MakePlan();
  plan.config.split_k = true;
  plan.splits = 4;
  plan.reduce_grid = 1;
  for (const bool brief : {true, false}) {
    plan.brief = brief;
    const auto& launches = Launch(plan);
    const auto& reduction = launches.back();
    const auto& product = launches[launches.size() - 2];
    EXPECT_EQ(product.argument<Arguments>().starts_next_early, 1);
    EXPECT_TRUE(reduction.overlaps);
    EXPECT_EQ(reduction.argument<ReduceArguments>().starts_next_early, brief);
    EXPECT_EQ(stream_->starts_next_early(), brief);
  }
}

TEST_F(LaunchTest, InterleavedConsumersShareTheStagesOfATile) {
  jit::Plan plan = MakePlan();
  plan.config.schedule = jit::Schedule::kInterleaved;
  plan.splits = plan.config.consumers = 4;
  const auto& launches = Launch(plan);
  ASSERT_EQ(launches.size(), 1u);
  const auto arguments = launches[0].argument<Arguments>();
  EXPECT_EQ(MapOf(arguments.d).pointer, kMemory.d);
  EXPECT_EQ(arguments.splits.value, 4u);
  EXPECT_EQ(arguments.units, 1);
  EXPECT_EQ(arguments.part_stages, 2);
  EXPECT_EQ(arguments.longer_parts, 1);
}

TEST_F(LaunchTest, CtasOfAClusterShareTheStagesOfATile) {
  jit::Plan plan = MakePlan();
  EXPECT_EQ(Launch(plan).back().cluster, 1u);
  plan.splits = plan.config.cluster = 4;
  plan.grid = 4;
  plan.brief = true;
  const auto& launch = Launch(plan).back();
  EXPECT_EQ(launch.cluster, 4u);
  EXPECT_EQ(launch.config.gridDimX, 4u);
  EXPECT_TRUE(launch.overlaps);
  const auto arguments = launch.argument<Arguments>();
  EXPECT_EQ(MapOf(arguments.d).pointer, kMemory.d);
  EXPECT_EQ(arguments.splits.value, 4u);
  EXPECT_EQ(arguments.units, 1);
  EXPECT_EQ(arguments.part_stages, 2);
  EXPECT_EQ(arguments.longer_parts, 1);
}

TEST_F(LaunchTest, NoUnitIsSharedOutUnlessThePlanSaysSo) {
  const auto balance = Launch(MakePlan()).back().argument<Arguments>().balance;
  EXPECT_EQ(balance.first_unit, 1);
  EXPECT_EQ(balance.stages, 0);
}

// 19 units of 9 stages for 4 CTAs: three rounds, then 7 units, which are 63
// stages.
TEST_F(LaunchTest, TheLastUnitsAreSharedOutToTheStage) {
  jit::Plan plan = MakePlan();
  plan.config.balanced = true;
  plan.batch = 19;
  plan.grid = 4;
  plan.balanced_units = 7;
  const auto balance = Launch(plan).back().argument<Arguments>().balance;
  EXPECT_EQ(balance.first_unit, 12);
  EXPECT_EQ(balance.rounds, 3);
  EXPECT_EQ(balance.stages, 15);
  EXPECT_EQ(balance.longer, 3);
  EXPECT_EQ(balance.unit_stages.value, 9u);
  EXPECT_EQ(balance.sums, reinterpret_cast<void*>(kMemory.partials));
  EXPECT_EQ(balance.flags, reinterpret_cast<unsigned*>(kMemory.pass_flags));
}

class SplitLaunchTest : public LaunchTest {
 protected:
  static jit::Plan SplitPlan() {
    jit::Plan plan = MakePlan();
    plan.config.split_k = true;
    plan.splits = 4;
    plan.reduce_grid = 9;
    plan.d.type = jit::DataType::kF32;
    plan.d.pitch_bytes = 96;  // Of the workspace, not of D.
    return plan;
  }
};

TEST_F(SplitLaunchTest, WritesPartialProductsToTheWorkspace) {
  const auto& launches = Launch(SplitPlan());
  ASSERT_EQ(launches.size(), 2u);
  const auto arguments = launches[0].argument<Arguments>();
  EXPECT_EQ(MapOf(arguments.d).pointer, kMemory.partials);
  EXPECT_EQ(arguments.splits.value, 4u);
  EXPECT_EQ(arguments.units, 4);
  // Nine stages: one part has three of them, the others two.
  EXPECT_EQ(arguments.part_stages, 2);
  EXPECT_EQ(arguments.longer_parts, 1);
}

TEST_F(SplitLaunchTest, LeavesCToTheReduction) {
  jit::Plan plan = SplitPlan();
  plan.family.epilogue.reads_c = true;
  Launch(plan);
  EXPECT_EQ(fake_.maps.size(), 3u);
}

TEST_F(SplitLaunchTest, ReducesTheWorkspaceIntoDWithAllItsArguments) {
  jit::Problem problem = MakeProblem();
  problem.d_type = problem.c_type = jit::DataType::kF32;
  jit::Plan plan = SplitPlan();
  plan.family.epilogue.reads_c = true;
  const auto launch =
      PrepareLaunch(*fake_.table(), problem, plan, functions_, kMemory);
  ASSERT_TRUE(launch.ok()) << launch.status();
  ASSERT_TRUE(Enqueue(*launch, *stream_).ok());
  ASSERT_EQ(fake_.launches.size(), 2u);
  const FakeDriver::Launch& reduction = fake_.launches[1];
  EXPECT_EQ(reduction.function, functions_.reduce);
  EXPECT_EQ(reduction.config.gridDimX, 9u);
  EXPECT_EQ(reduction.config.blockDimX, unsigned{kReduceThreads});
  EXPECT_EQ(reduction.config.sharedMemBytes, 0u);
  EXPECT_EQ(reduction.config.hStream, stream_->get());
  // It waits for the product by griddepcontrol.
  EXPECT_TRUE(reduction.overlaps);
  const auto arguments = reduction.argument<ReduceArguments>();
  EXPECT_EQ(arguments.partials,
            reinterpret_cast<const void*>(kMemory.partials));
  EXPECT_EQ(arguments.epilogue.c, reinterpret_cast<const void*>(kMemory.c));
  EXPECT_EQ(arguments.d, reinterpret_cast<void*>(kMemory.d));
  // 96 bytes of the workspace; D has lines of 12 f32, 64 bytes apart.
  EXPECT_EQ(arguments.partials_pitch, 24) << "pitch of the workspace";
  EXPECT_EQ(arguments.pitch, 16) << "pitch of D";
  EXPECT_EQ(arguments.quads.value, 3u) << "lines of 12";
  EXPECT_EQ(arguments.lines.value, 11u);
  EXPECT_EQ(arguments.splits, 4);
  EXPECT_EQ(arguments.matrices, 1);
  EXPECT_EQ(arguments.epilogue.alpha, 2.0f);
  EXPECT_EQ(arguments.epilogue.beta, 0.5f);
}

TEST_F(LaunchTest, AGroupHasItsLongProductsFirst) {
  std::vector<PreparedLaunch> launches(3);
  for (PreparedLaunch& launch : launches) {
    launch.functions = functions_;
    launch.grid = 5;
    launch.threads = 384;
    launch.shared_memory_bytes = 1000;
  }
  launches[0].arguments.units = 7;
  launches[0].arguments.part_stages = 2;
  launches[1].arguments.units = 20;
  launches[1].arguments.part_stages = 9;
  launches[2].arguments.units = 1;
  launches[2].arguments.part_stages = 2;
  const PreparedGroup group = Group(launches);
  ASSERT_EQ(group.products.size(), 3u);
  EXPECT_EQ(group.products[0].part_stages, 9);
  EXPECT_EQ(group.products[1].units, 7);
  EXPECT_EQ(group.products[2].units, 1);
  EXPECT_EQ(group.arguments.units, 28);
  EXPECT_EQ(group.arguments.first_unit[0], 0);
  EXPECT_EQ(group.arguments.first_unit[1], 20);
  EXPECT_EQ(group.arguments.first_unit[2], 27);
  for (int i = 3; i < kMaxGroups; ++i) {
    ASSERT_GT(group.arguments.first_unit[i], 28 + 132);
  }
  fake_.argument_bytes["gemmd_kernel"] = sizeof(GroupedArguments);
  stream_->set_starts_next_early(true);
  ASSERT_TRUE(EnqueueGroup(group, 0xabc0, *stream_).ok());
  const FakeDriver::Launch& launch = fake_.launches[0];
  EXPECT_EQ(launch.config.gridDimX, 5u);
  EXPECT_EQ(launch.config.blockDimX, 384u);
  EXPECT_EQ(launch.config.sharedMemBytes, 1000u);
  EXPECT_FALSE(launch.overlaps) << "it reads what a copy has brought";
  EXPECT_FALSE(stream_->starts_next_early());
  EXPECT_EQ(
      reinterpret_cast<uint64_t>(launch.argument<GroupedArguments>().products),
      0xabc0u);
}

}  // namespace
}  // namespace gemmd::gpu
