#include "service/gpu/launch.h"

#include <gtest/gtest.h>

#include <cstring>

#include "service/gpu/tensor_map.h"
#include "tests/service/gpu/fake_driver.h"

namespace gemmd::gpu {
namespace {

constexpr LaunchMemory kMemory = {
    .a = 0x1000, .b = 0x2000, .c = 0x3000, .d = 0x4000, .partials = 0x5000};

jit::TensorMapSpec Spec(int64_t width) {
  return {.type = jit::DataType::kBf16,
          .width = width,
          .lines = 7,
          .pitch_bytes = 64,
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
  plan.threads = 384;
  plan.shared_memory_bytes = 200000;
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

KernelFunctions Functions() {
  return {.multiply = reinterpret_cast<CUfunction>(1),
          .reduce = reinterpret_cast<CUfunction>(2)};
}

uint64_t NumberOf(const TensorMap& map) {
  uint64_t number;
  std::memcpy(&number, map.bytes, sizeof(number));
  return number;
}

class LaunchTest : public testing::Test {
 protected:
  absl::StatusOr<PreparedLaunch> Prepare(const jit::Plan& plan) {
    return PrepareLaunch(*fake_.table(), MakeProblem(), plan, Functions(),
                         kMemory);
  }
  // The map that was encoded as the given argument.
  const FakeDriver::EncodedMap& MapOf(const TensorMap& map) {
    return fake_.maps.at(NumberOf(map) - 1);
  }

  FakeDriver fake_;
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
  EXPECT_EQ(launch->arguments.rows, 11);
  EXPECT_EQ(launch->arguments.columns, 12);
  EXPECT_EQ(launch->arguments.depth, 13);
  EXPECT_EQ(launch->arguments.raster_group, 3);
  EXPECT_EQ(launch->arguments.alpha, 2.0f);
  EXPECT_EQ(launch->arguments.beta, 0.5f);
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
  plan.family.reads_c = true;
  const auto launch = Prepare(plan);
  ASSERT_TRUE(launch.ok());
  EXPECT_EQ(MapOf(launch->arguments.c).pointer, kMemory.c);
}

TEST_F(LaunchTest, OfDepthZeroTouchesNoOperandButHasValidMaps) {
  jit::Plan plan = MakePlan();
  plan.depth = 0;
  const auto launch = Prepare(plan);
  ASSERT_TRUE(launch.ok());
  EXPECT_EQ(MapOf(launch->arguments.x).pointer, kMemory.d);
  EXPECT_EQ(MapOf(launch->arguments.y).pointer, kMemory.d);
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

TEST_F(LaunchTest, EnqueuesOneGrid) {
  const auto context = *Context::Create(fake_.table(), 0);
  const auto stream = *Stream::Create(context.get());
  const auto launch = Prepare(MakePlan());
  ASSERT_TRUE(launch.ok());
  static Arguments received;
  fake_.on_launch = [](const FakeDriver::Launch& l) {
    received = *static_cast<const Arguments*>(l.argument);
  };
  ASSERT_TRUE(Enqueue(*launch, *stream).ok());
  ASSERT_EQ(fake_.launches.size(), 1u);
  const FakeDriver::Launch& done = fake_.launches[0];
  EXPECT_EQ(done.function, Functions().multiply);
  EXPECT_EQ(done.config.gridDimX, 5u);
  EXPECT_EQ(done.config.blockDimX, 384u);
  EXPECT_EQ(done.config.sharedMemBytes, 200000u);
  EXPECT_EQ(done.config.hStream, stream->get());
  EXPECT_FALSE(done.overlaps);
  EXPECT_EQ(NumberOf(received.x), NumberOf(launch->arguments.x));
  EXPECT_EQ(received.rows, 11);
}

TEST_F(LaunchTest, ASplitProductIsReducedFromTheWorkspaceIntoD) {
  const auto context = *Context::Create(fake_.table(), 0);
  const auto stream = *Stream::Create(context.get());
  jit::Plan plan = MakePlan();
  plan.config.split_k = true;
  plan.family.reads_c = true;
  plan.splits = 4;
  plan.partial_lines = 16;
  plan.reduce_grid = 9;
  const auto launch = Prepare(plan);
  ASSERT_TRUE(launch.ok()) << launch.status();
  EXPECT_EQ(MapOf(launch->arguments.d).pointer, kMemory.partials);
  EXPECT_EQ(fake_.maps.size(), 3u);  // C is read by the reduction.
  EXPECT_EQ(launch->arguments.splits, 4);
  EXPECT_EQ(launch->reduce_arguments.d, reinterpret_cast<void*>(kMemory.d));
  EXPECT_EQ(launch->reduce_arguments.c,
            reinterpret_cast<const void*>(kMemory.c));
  EXPECT_EQ(launch->reduce_arguments.beta, 0.5f);
  ASSERT_TRUE(Enqueue(*launch, *stream).ok());
  ASSERT_EQ(fake_.launches.size(), 2u);
  EXPECT_EQ(fake_.launches[1].function, Functions().reduce);
  EXPECT_EQ(fake_.launches[1].config.gridDimX, 9u);
}

TEST(TensorMapTest, MapsTypesAndSwizzles) {
  FakeDriver fake;
  jit::TensorMapSpec spec = Spec(32);
  const std::pair<jit::DataType, CUtensorMapDataType> types[] = {
      {jit::DataType::kF32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32},
      {jit::DataType::kF16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16},
      {jit::DataType::kBf16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16},
      {jit::DataType::kE4m3, CU_TENSOR_MAP_DATA_TYPE_UINT8},
  };
  for (const auto& [type, expected] : types) {
    spec.type = type;
    ASSERT_TRUE(EncodeTensorMap(*fake.table(), spec, 0x1000).ok());
    EXPECT_EQ(fake.maps.back().type, expected);
  }
  const std::pair<int, CUtensorMapSwizzle> swizzles[] = {
      {0, CU_TENSOR_MAP_SWIZZLE_NONE},
      {32, CU_TENSOR_MAP_SWIZZLE_32B},
      {64, CU_TENSOR_MAP_SWIZZLE_64B},
      {128, CU_TENSOR_MAP_SWIZZLE_128B},
  };
  for (const auto& [bytes, expected] : swizzles) {
    spec.swizzle_bytes = bytes;
    ASSERT_TRUE(EncodeTensorMap(*fake.table(), spec, 0x1000).ok());
    EXPECT_EQ(fake.maps.back().swizzle, expected);
  }
  EXPECT_EQ(fake.maps.back().lines, 7u);
  EXPECT_EQ(fake.maps.back().stride_bytes, 64u);
  EXPECT_EQ(fake.maps.back().box_width, 16u);
  EXPECT_EQ(fake.maps.back().box_lines, 8u);
}

TEST(TensorMapTest, RefusesWhatNoMapCanDescribe) {
  FakeDriver fake;
  jit::TensorMapSpec spec = Spec(32);
  spec.type = jit::DataType::kB1;
  EXPECT_FALSE(EncodeTensorMap(*fake.table(), spec, 0x1000).ok());
  spec = Spec(32);
  spec.swizzle_bytes = 96;
  EXPECT_FALSE(EncodeTensorMap(*fake.table(), spec, 0x1000).ok());
  EXPECT_TRUE(fake.maps.empty());
}

}  // namespace
}  // namespace gemmd::gpu
