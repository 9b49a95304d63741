// Operands that products are timed on.
#include "service/gpu/scratch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "jit/plan/form.h"
#include "jit/plan/launch_arithmetic.h"
#include "jit/plan/planner.h"
#include "jit/problem/metadata.h"
#include "jit/problem/problem_line.h"
#include "service/gpu/cuda_device.h"
#include "service/gpu/random_elements.h"
#include "tests/service/gpu/fake_driver.h"

namespace gemmd::gpu {
namespace {

jit::Problem Parse(const std::string& line) {
  return *jit::ParseProblemLine(line);
}

std::vector<device::Contender> Contenders(const jit::Problem& problem) {
  std::vector<device::Contender> contenders;
  for (const jit::Plan& plan : jit::RankPlans(problem, {}, 16)) {
    contenders.push_back({plan, nullptr});
  }
  return contenders;
}

ScratchLayout LayoutOf(const std::string& line) {
  return ScratchLayoutOf(Parse(line), Contenders(Parse(line)));
}

const char* const kProblems[] = {
    "bf16 TN 512 512 8192",
    "f32 NN 300 500 200 beta=1",
    "e4m3 NT 100 200 300 d=bf16 c=f32 beta=1 alpha=2 bias=row",
    "e4m3 TN 128 256 512 a_scale=block b_scale=block d=bf16",
    "s8 TT 100 200 300 batch=3 broadcast=b",
    "b1-xor TN 100 200 4000",
    "bf16 TN 100 200 300 aux act=gelu amax d_scale",
};

TEST(ScratchLayoutTest, RegionsDoNotOverlapAndAreAligned) {
  for (const char* line : kProblems) {
    const ScratchLayout layout = LayoutOf(line);
    const auto check = [&](std::vector<ScratchLayout::Region> regions,
                           int64_t limit) {
      int64_t end = 0;
      for (const auto& region : regions) {
        if (region.bytes == 0) continue;
        EXPECT_EQ(region.offset % 512, 0) << line;
        EXPECT_GE(region.offset, end) << line;
        end = region.offset + region.bytes;
      }
      EXPECT_LE(end, limit) << line;
    };
    check({layout.a, layout.b, layout.c, layout.d, layout.auxiliary},
          layout.copy_bytes);
    check({layout.bias, layout.a_scale, layout.b_scale, layout.d_scale,
           layout.amax, layout.partials, layout.line_bits, layout.pass_flags},
          layout.shared_bytes);
  }
}

TEST(ScratchLayoutTest, ThereIsWhatAProductReadsAndWrites) {
  EXPECT_EQ(LayoutOf("bf16 TN 512 512 8192").a.bytes, 2 * 512 * 8192);
  EXPECT_EQ(LayoutOf("bf16 TN 512 512 8192").c.bytes, 0);
  EXPECT_GT(LayoutOf("bf16 TN 512 512 8192").partials.bytes, 0);
  // Three planes of bf16.
  const ScratchLayout split = LayoutOf("f32 NN 512 256 128 beta=1");
  EXPECT_EQ(split.a.bytes, 3 * 2 * 512 * 128);
  EXPECT_EQ(split.a.type, jit::DataType::kBf16);
  EXPECT_EQ(split.c.bytes, 4 * 512 * 256);
  EXPECT_GT(LayoutOf("b1-xor TN 100 200 4000").line_bits.bytes, 0);
  const ScratchLayout steps =
      LayoutOf("bf16 TN 100 200 300 aux act=gelu amax d_scale");
  EXPECT_EQ(steps.auxiliary.bytes, steps.d.bytes);
  EXPECT_EQ(steps.amax.bytes, steps.d_scale.bytes);
  EXPECT_GT(steps.amax.bytes, 0);
}

TEST(ScratchLayoutTest, CopiesPutTwiceTheCacheBetweenTwoUses) {
  const ScratchLayout layout = LayoutOf("bf16 TN 1024 1024 1024");
  for (const int64_t cache : {int64_t{1} << 20, int64_t{50} << 20}) {
    const int64_t copies = layout.CopiesBeyond(cache);
    EXPECT_GE((copies - 1) * layout.input_bytes, 2 * cache);
    EXPECT_LT((copies - 2) * layout.input_bytes, 2 * cache);
  }
  EXPECT_EQ(LayoutOf("bf16 TN 8 8 8").CopiesBeyond(50 << 20), 1024);
}

TEST(ScratchLayoutTest, WorkspacesAreLargeEnoughForEachContender) {
  const jit::Problem problem = Parse("e4m3 TN 100 200 300 d=bf16");
  std::vector<device::Contender> contenders(2);
  contenders[0].plan.b_form = jit::Form::kTransposed;
  contenders[1].plan.line_bits_bytes = 1000;
  contenders[1].plan.balanced_units = 1;
  contenders[1].plan.grid = 5;
  const ScratchLayout layout = ScratchLayoutOf(problem, contenders);
  EXPECT_EQ(layout.line_bits.bytes, 1000);
  EXPECT_EQ(layout.pass_flags.bytes, jit::PassFlagsBytes(contenders[1].plan));
  EXPECT_EQ(layout.a.bytes, problem.a().device_bytes());
  EXPECT_EQ(
      layout.b.bytes,
      jit::FormLayout(problem.b(), jit::Form::kTransposed).device_bytes());
}

TEST(RandomElementsTest, AreFiniteAndDiffer) {
  std::vector<char> bytes(4096);
  FillRandomly(jit::DataType::kF32, absl::MakeSpan(bytes));
  std::set<float> values;
  for (size_t i = 0; i < bytes.size(); i += sizeof(float)) {
    float value;
    std::memcpy(&value, bytes.data() + i, sizeof(value));
    EXPECT_TRUE(std::isfinite(value));
    EXPECT_GE(std::abs(value), 0.125f);
    EXPECT_LT(std::abs(value), 2.0f);
    values.insert(value);
  }
  EXPECT_GT(values.size(), 1000);
  for (const auto& [type, nan_exponent] :
       {std::pair(jit::DataType::kE4m3, 0x78),
        std::pair(jit::DataType::kE5m2, 0x7c)}) {
    FillRandomly(type, absl::MakeSpan(bytes));
    std::set<char> seen(bytes.begin(), bytes.end());
    EXPECT_GE(seen.size(), 32) << Name(type);
    for (const char byte : seen) {
      EXPECT_NE(byte & nan_exponent, nan_exponent) << Name(type);
    }
  }
}

TEST(ScratchTest, EveryInputOfEveryCopyIsFilled) {
  FakeDriver fake;
  const auto device = *CudaDevice::Open(fake.table(), 0, {});
  const auto stream = *Stream::Create(&device->context());
  const auto pinned = PinnedPool::Create(&device->context(), {});
  // A has more bytes than are made on the host, and C has other elements.
  const ScratchLayout layout =
      LayoutOf("bf16 TN 700 300 1000 d=f32 beta=1 bias=row");
  ASSERT_GT(layout.a.bytes, 1 << 20);
  const auto scratch =
      Scratch::Create(layout, 3, device->memory(), *pinned, stream);
  ASSERT_TRUE(scratch.ok()) << scratch.status();
  const auto expect_filled = [](CUdeviceptr at, int64_t bytes) {
    const char* from = reinterpret_cast<const char*>(at);
    // No 8 bytes of random elements are all alike.
    for (int64_t i = 0; i + 8 <= bytes; i += 8) {
      bool varies = false;
      for (int j = 1; j < 8; ++j) varies |= from[i + j] != from[i];
      ASSERT_TRUE(varies) << "at " << i << " of " << bytes;
    }
  };
  for (int64_t copy = 0; copy < 3; ++copy) {
    const LaunchMemory memory = (*scratch)[copy];
    expect_filled(memory.a, layout.a.bytes);
    expect_filled(memory.b, layout.b.bytes);
    expect_filled(memory.c, layout.c.bytes);
    expect_filled(memory.bias, layout.bias.bytes);
    EXPECT_EQ(memory.auxiliary, 0);
  }
  EXPECT_NE((*scratch)[0].a, (*scratch)[1].a);
  EXPECT_EQ((*scratch)[0].bias, (*scratch)[1].bias);
  EXPECT_GE((*scratch)[0].bias, (*scratch)[0].a + 3 * layout.copy_bytes);
}

TEST(ScratchTest, FlagsAreZeroAndMetadataIsValidInEveryCopy) {
  FakeDriver fake;
  const auto device = *CudaDevice::Open(fake.table(), 0, {});
  const auto stream = *Stream::Create(&device->context());
  const auto pinned = PinnedPool::Create(&device->context(), {});
  std::vector<device::Contender> contenders(1);
  contenders[0].plan.a_form = jit::Form::kMetadata;
  contenders[0].plan.balanced_units = 1;
  contenders[0].plan.grid = 132;
  jit::Problem problem = Parse("bf16 TN 128 128 128");
  problem.sparse = jit::Sparse::kA;
  const ScratchLayout layout = ScratchLayoutOf(problem, contenders);
  ASSERT_GT(layout.metadata.bytes, 0);
  const auto scratch =
      Scratch::Create(layout, 2, device->memory(), *pinned, stream);
  ASSERT_TRUE(scratch.ok()) << scratch.status();
  ASSERT_TRUE(stream->Synchronize().ok());
  const auto bytes_at = [](CUdeviceptr at, int64_t bytes) {
    return std::string(reinterpret_cast<const char*>(at),
                       static_cast<size_t>(bytes));
  };
  for (int64_t copy = 0; copy < 2; ++copy) {
    const LaunchMemory memory = (*scratch)[copy];
    EXPECT_EQ(bytes_at(memory.metadata, layout.metadata.bytes),
              std::string(static_cast<size_t>(layout.metadata.bytes),
                          static_cast<char>(jit::kFirstPlaces)));
    EXPECT_GE(memory.pass_flags, (*scratch)[1].d + layout.d.bytes);
    EXPECT_EQ(bytes_at(memory.pass_flags, layout.pass_flags.bytes),
              std::string(static_cast<size_t>(layout.pass_flags.bytes), '\0'));
  }
}

}  // namespace
}  // namespace gemmd::gpu
