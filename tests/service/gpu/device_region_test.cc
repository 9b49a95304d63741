// Products whose operands and results lie in device memory of a client's: what
// is used where it is, what is copied, and how long the memory stays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "service/engine/group.h"
#include "service/engine/product.h"
#include "service/engine/sequence.h"
#include "service/gpu/cuda_device.h"
#include "service/gpu/cuda_matrix.h"
#include "templates/common/arguments.h"
#include "tests/service/gpu/fake_driver.h"
#include "tests/service/gpu/imported_region.h"

namespace gemmd::gpu {
namespace {

using engine::Input;
using ::testing::Contains;
using ::testing::Not;

constexpr int64_t kBytes = FakeExports::kUnit;

class DeviceRegionTest : public testing::Test {
 protected:
  // 16 x 16 of f32 sums over 16 of k: lines of 32 and of 64 bytes.
  DeviceRegionTest() {
    problem_.m = problem_.n = problem_.k = 16;
    problem_.a_type = problem_.b_type = jit::DataType::kBf16;
    problem_.c_type = problem_.d_type = jit::DataType::kF32;
    prepared_.plan.rows = prepared_.plan.columns = 16;
    prepared_.plan.stages = 1;
    prepared_.plan.threads = 128;
    prepared_.plan.grid = 1;
    prepared_.plan.splits = 1;
    prepared_.plan.x =
        prepared_.plan.y = {.width = 16, .lines = 16, .pitch_bytes = 32};
    prepared_.plan.d = {.type = jit::DataType::kF32,
                        .width = 16,
                        .lines = 16,
                        .pitch_bytes = 64};
    jit::CompiledKernel compiled;
    compiled.cubin = "cubin";
    auto kernel = std::make_shared<engine::LoadedKernel>();
    kernel->kernel = *device_->Load(compiled, prepared_.plan);
    prepared_.kernel = std::move(kernel);
    fake_.run_kernel = [this](const FakeDriver::Launch& launch) {
      const auto arguments = launch.argument<Arguments>();
      a_ = fake_.MapOf(arguments.x.bytes).pointer;
      b_ = fake_.MapOf(arguments.y.bytes).pointer;
      d_ = fake_.MapOf(arguments.d.bytes).pointer;
      read_a_ = std::string(reinterpret_cast<const char*>(a_), 16 * 32);
      std::memset(reinterpret_cast<char*>(d_), 'D', 16 * 64);
    };
  }

  std::shared_ptr<ImportedRegion> Region() {
    const jit::UniqueFd fd = fake_.exports.Descriptor({.bytes = kBytes});
    return std::make_shared<ImportedRegion>(
        *device_->ImportMemory({.fd = fd.get(), .bytes = kBytes}));
  }

  static Input At(std::shared_ptr<ImportedRegion> region, int64_t offset,
                  int64_t pitch, int64_t width) {
    const auto size = static_cast<size_t>(15 * pitch + width);
    return {.pieces = {region->bytes().subspan(offset, size)},
            .pitch_bytes = pitch,
            .matrix_bytes = 16 * pitch,
            .region = std::move(region)};
  }
  Input A(int64_t offset, int64_t pitch = 32) {
    return At(region_, offset, pitch, 32);
  }

  // A at 0, B at 4096, D at 8192 of the region.
  engine::Product InPlace() {
    return {.problem = problem_,
            .a = A(0),
            .b = At(region_, 4096, 32, 32),
            .d = {.place = {region_, 8192}, .pitch_bytes = 64}};
  }

  // How many were copied.
  int Run(const engine::Product& product) {
    fake_.Forget();
    engine::Phases phases;
    auto results = engine::RunProduct(*lane_, prepared_, product, {}, phases);
    EXPECT_TRUE(results.ok()) << results.status();
    EXPECT_EQ(results->d, nullptr);
    return results->copies;
  }
  uint64_t Address(int64_t offset) const {
    return reinterpret_cast<uint64_t>(region_->bytes().data() + offset);
  }
  std::string Bytes(int64_t offset, size_t size) const {
    return std::string(region_->bytes().data() + offset, size);
  }

  FakeDriver fake_;
  const std::unique_ptr<CudaDevice> device_ =
      *CudaDevice::Open(fake_.table(), 0, {});
  std::unique_ptr<device::Lane> lane_ = *device_->CreateLane();
  std::shared_ptr<ImportedRegion> region_ = Region();
  jit::Problem problem_;
  engine::Prepared prepared_;
  uint64_t a_ = 0, b_ = 0, d_ = 0;  // Where the kernel found them.
  std::string read_a_;
};

TEST_F(DeviceRegionTest, WhatLiesAsTheDevicesOwnIsUsedWhereItIs) {
  EXPECT_EQ(Run(InPlace()), 0);
  EXPECT_EQ(a_, Address(0));
  EXPECT_EQ(b_, Address(4096));
  EXPECT_EQ(d_, Address(8192));
  for (const char* call :
       {"cuMemcpyDtoDAsync", "cuMemcpy2DAsync", "cuMemcpyHtoDAsync",
        "cuMemcpyDtoHAsync", "cuMemAllocFromPoolAsync", "cuMemsetD8Async"}) {
    EXPECT_THAT(fake_.names(), Not(Contains(call)));
  }
  EXPECT_EQ(fake_.CountOf("cuStreamSynchronize"), 1);
  EXPECT_EQ(Bytes(8192, 1024), std::string(1024, 'D'));
}

// Steps read rooms, also what goes to the region: here to the bytes of A.
TEST_F(DeviceRegionTest, OfASequenceAllIsCopiedWithinTheDevice) {
  const auto room = [](const jit::MatrixLayout& layout) {
    return std::make_shared<engine::Tensor>(engine::Tensor::Identity(), layout,
                                            engine::QuotaHold());
  };
  const auto a = room(problem_.a()), b = room(problem_.b()),
             d = room(problem_.d());
  engine::Sequence sequence = {.rooms = {a, b, d}};
  sequence.operands.push_back({.name = "a", .bytes = A(0), .room = a});
  sequence.operands.push_back(
      {.name = "b", .bytes = At(region_, 4096, 32, 32), .room = b});
  sequence.steps.push_back(
      {.problem = problem_,
       .a = {.tensor = a},
       .b = {.tensor = b},
       .d = {.tensor = d, .place = {region_, 0}, .pitch_bytes = 64}});
  std::ranges::fill(region_->bytes(), 'A');
  const engine::Prepared* const prepared[] = {&prepared_};
  engine::Phases phases;
  fake_.Forget();
  int meanwhile = 0;
  const auto run = [&] {
    return engine::RunSequence(*lane_, prepared, sequence, {}, phases, [&] {
      ++meanwhile;
      EXPECT_EQ(fake_.launches.size(), 1u);
      EXPECT_EQ(fake_.CountOf("cuStreamSynchronize"), 0);
    });
  };
  fake_.Fail("cuLaunchKernelEx", CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_FALSE(run().ok());
  EXPECT_EQ(meanwhile, 0) << "the device does not work";
  fake_.Forget();
  const auto results = run();
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ(meanwhile, 1);
  EXPECT_EQ((*results)[0].d, nullptr);
  EXPECT_EQ(read_a_, std::string(16 * 32, 'A'));
  EXPECT_NE(a_, Address(0));
  EXPECT_EQ(d_, static_cast<const CudaMatrix&>(engine::TensorLocks::matrix(*d))
                    .pointer());
  EXPECT_EQ(Bytes(0, 1024), std::string(1024, 'D'));
  EXPECT_EQ(Bytes(1024, 1), "A");
  EXPECT_THAT(fake_.names(), Not(Contains("cuMemcpyDtoHAsync")));
}

TEST_F(DeviceRegionTest, WhatLiesOtherwiseIsCopiedWithinTheDevice) {
  struct Case {
    int64_t offset, pitch;
  };
  // Of them the last line ends where the region does.
  for (const Case& c :
       {Case{8, 32}, Case{2, 32}, Case{0, 34}, Case{0, 64},
        Case{kBytes - 15 * 48 - 32, 48}, Case{kBytes - 15 * 33 - 32, 33}}) {
    engine::Product product = InPlace();
    product.b = At(region_, 65536, 32, 32);
    product.d.place.offset = 131072;
    product.a = A(c.offset, c.pitch);
    std::string expected;
    for (int64_t line = 0; line < 16; ++line) {
      std::memset(region_->bytes().data() + c.offset + line * c.pitch,
                  static_cast<int>('a' + line), 32);
      expected += std::string(32, static_cast<char>('a' + line));
    }
    EXPECT_EQ(Run(product), 1);
    EXPECT_NE(a_, Address(c.offset));
    EXPECT_EQ(b_, Address(65536));
    EXPECT_EQ(read_a_, expected) << c.offset << " " << c.pitch;
    EXPECT_THAT(fake_.names(), Not(Contains("cuMemcpyHtoDAsync")));
  }
}

// The driver may refuse a pitch that it did not choose.
TEST_F(DeviceRegionTest, LinesAreCopiedOneByOneWhereTheyMustBe) {
  engine::Product product = InPlace();
  product.a = A(0, 48);
  fake_.Fail("cuMemcpy2DAsync", CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Run(product), 1);
  EXPECT_EQ(fake_.CountOf("cuMemcpyDtoDAsync"), 16);
}

TEST_F(DeviceRegionTest, PaddingOfACopyIsZero) {
  auto matrix =
      *lane_->Allocate({.type = jit::DataType::kBf16, .rows = 5, .columns = 7});
  std::memset(region_->bytes().data(), 'x', 5 * 14);
  const absl::Span<const char> pieces[] = {region_->bytes().subspan(0, 5 * 14)};
  ASSERT_TRUE(lane_->Upload({pieces, 14, region_}, {0, 5}, *matrix).ok());
  ASSERT_TRUE(lane_->Synchronize().ok());
  const auto* const at = reinterpret_cast<const char*>(
      static_cast<const CudaMatrix&>(*matrix).pointer());
  for (int line = 0; line < 5; ++line) {
    EXPECT_EQ(std::string(at + 16 * line, 16),
              std::string(14, 'x') + std::string(2, '\0'));
  }
}

TEST_F(DeviceRegionTest, AResultThatLiesOtherwiseIsCopiedThere) {
  for (const int64_t pitch : {64, 72, 128}) {
    for (const int64_t offset : {int64_t{8196}, kBytes - 15 * pitch - 64}) {
      engine::Product product = InPlace();
      product.d.place.offset = offset;
      product.d.pitch_bytes = pitch;
      std::memset(region_->bytes().data() + 8192, '.', kBytes - 8192);
      const int copies = Run(product);
      EXPECT_EQ(copies, offset % 16 == 0 && pitch == 64 ? 0 : 1);
      for (int64_t line = 0; line < 16; ++line) {
        EXPECT_EQ(Bytes(offset + line * pitch, 64), std::string(64, 'D'));
        if (line < 15) {
          EXPECT_EQ(Bytes(offset + line * pitch + 64, pitch - 64),
                    std::string(pitch - 64, '.'));
        }
      }
    }
  }
}

// A kernel would overwrite what other CTAs of it still read.
TEST_F(DeviceRegionTest, AResultOverAnOperandIsWrittenWhenAllIsRead) {
  for (const int64_t offset :
       {int64_t{0}, int64_t{496}, int64_t{4096 - 1008}}) {
    engine::Product product = InPlace();
    product.d.place.offset = offset;
    EXPECT_EQ(Run(product), 1) << offset;
    EXPECT_EQ(a_, Address(0));
    EXPECT_NE(d_, Address(offset));
    EXPECT_EQ(Bytes(offset, 1024), std::string(1024, 'D'));
  }
  engine::Product product = InPlace();
  product.d.place.offset = 512;  // Just behind A.
  EXPECT_EQ(Run(product), 0);
}

TEST_F(DeviceRegionTest, AResultOfAGroupSparesWhatOthersRead) {
  std::vector<engine::Product> group = {InPlace(), InPlace()};
  group[1].a = A(16384);
  group[0].d.place.offset = 16384;
  group[1].d.place.offset = 32768;
  EXPECT_TRUE(engine::WritesWhatIsRead(group[0], &engine::Product::d, group));
  EXPECT_FALSE(
      engine::WritesWhatIsRead(group[0], &engine::Product::d, {&group[0], 1}));
  EXPECT_FALSE(engine::WritesWhatIsRead(group[1], &engine::Product::d, group));

  std::vector<engine::GroupLaunch> launches(2);
  for (size_t i = 0; i < 2; ++i) {
    launches[i].products = {i};
    launches[i].preparation.prepared =
        std::make_shared<engine::Prepared>(prepared_);
  }
  std::memset(region_->bytes().data() + 16384, 'q', 512);
  engine::Phases phases;
  const auto results = engine::RunGroup(
      *lane_, device_->description().properties, launches, group, {}, phases);
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ(read_a_, std::string(512, 'q')) << "what the second one found";
  EXPECT_EQ(Bytes(16384, 1024), std::string(1024, 'D'));
  EXPECT_EQ(d_, Address(32768));
}

TEST_F(DeviceRegionTest, CMayBeTheResult) {
  prepared_.plan.family.epilogue.reads_c = true;
  problem_.beta = 1;
  engine::Product product = InPlace();
  product.c = At(region_, 8192, 64, 64);
  EXPECT_EQ(Run(product), 0);
  EXPECT_EQ(d_, Address(8192));
  product.c = At(region_, 8192 + 64, 64, 64);  // A line further.
  EXPECT_EQ(Run(product), 1);
  EXPECT_NE(d_, Address(8192));
}

// It is the same matrix as D, but other parts of D need other parts of it.
TEST_F(DeviceRegionTest, AMayNot) {
  problem_.a_type = jit::DataType::kF32;
  engine::Product product = InPlace();
  product.a = At(region_, 8192, 64, 64);
  EXPECT_EQ(Run(product), 1);
  EXPECT_EQ(a_, Address(8192));
  EXPECT_NE(d_, Address(8192));
}

TEST_F(DeviceRegionTest, HostMemoryAndDeviceMemoryGoTogether) {
  std::string bytes(16 * 32, 'h');
  engine::Product product = InPlace();
  product.a = {.pieces = {absl::MakeConstSpan(bytes)},
               .pitch_bytes = 32,
               .matrix_bytes = 512};
  EXPECT_EQ(Run(product), 0);
  EXPECT_EQ(b_, Address(4096));
  EXPECT_EQ(read_a_, bytes);
  const engine::Paths paths = engine::PathsOf(product);
  EXPECT_EQ(paths.a, engine::Path::kInline);
  EXPECT_EQ(paths.b, engine::Path::kDeviceVmm);
  EXPECT_EQ(paths.c, engine::Path::kNone);
  EXPECT_EQ(paths.d, engine::Path::kDeviceVmm);
}

// Whatever becomes of the client: the fake fails the test where a kernel uses
// what is not mapped.
TEST_F(DeviceRegionTest, MemoryStaysMappedUntilTheKernelHasRun) {
  const std::weak_ptr<ImportedRegion> watched = region_;
  engine::Product product = InPlace();
  region_.reset();
  {
    auto a = lane_->Borrow({product.d.place.region, 0}, problem_.a(), 32);
    ASSERT_NE(a, nullptr);
    product = {};
    EXPECT_FALSE(watched.expired());
  }
  EXPECT_FALSE(watched.expired()) << "the lane may still have work with it";
  EXPECT_EQ(fake_.CountOf("cuMemUnmap"), 0);
  ASSERT_TRUE(lane_->Synchronize().ok());
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(fake_.CountOf("cuMemUnmap"), 1);
}

TEST_F(DeviceRegionTest, AProductThatFailsLeavesNothingMapped) {
  engine::Product product = InPlace();
  const std::weak_ptr<ImportedRegion> watched = region_;
  region_.reset();
  fake_.Fail("cuLaunchKernelEx", CUDA_ERROR_INVALID_VALUE);
  engine::Phases phases;
  EXPECT_FALSE(engine::RunProduct(*lane_, prepared_, product, {}, phases).ok());
  product = {};
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace gemmd::gpu
