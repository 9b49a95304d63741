#include "service/gpu/pinned_memory.h"

#include <gtest/gtest.h>

#include "tests/service/gpu/fake_driver.h"

namespace gemmd::gpu {
namespace {

class PinnedMemoryTest : public testing::Test {
 protected:
  FakeDriver fake_;
  std::unique_ptr<Context> context_ = *Context::Create(fake_.table(), 0);
};

TEST_F(PinnedMemoryTest, ClassesHoldTheirRequestAndWasteAQuarterAtMost) {
  EXPECT_EQ(PinnedPool::SizeClass(1), 4096);
  EXPECT_EQ(PinnedPool::SizeClass(4096), 4096);
  for (int64_t bytes = 4097; bytes < 1 << 22; bytes += 997) {
    const int64_t size = PinnedPool::SizeClass(bytes);
    EXPECT_GE(size, bytes);
    EXPECT_LE(size, bytes + bytes / 4) << bytes;
    // A buffer given back is found again by the size that it has.
    EXPECT_EQ(PinnedPool::SizeClass(size), size) << bytes;
  }
}

TEST_F(PinnedMemoryTest, ReusesWhatComesBack) {
  const auto pool = PinnedPool::Create(context_.get(), {});
  char* first;
  {
    const auto buffer = pool->Allocate(5000);
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(buffer->bytes().size(), 5000u);
    first = buffer->bytes().data();
  }
  const auto again = pool->Allocate(4900);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->bytes().data(), first);
  EXPECT_EQ(fake_.CountOf("cuMemHostAlloc"), 1);
  EXPECT_EQ(pool->use().idle_bytes, 0);
}

TEST_F(PinnedMemoryTest, RefusesBeyondTheLimitAndFreesIdleBuffersBefore) {
  const auto pool = PinnedPool::Create(
      context_.get(), {.total_bytes = 16384, .idle_bytes = 16384});
  { const auto idle = pool->Allocate(8192); }
  auto large = pool->Allocate(12288);
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_EQ(fake_.CountOf("cuMemFreeHost"), 1);
  const auto refused = pool->Allocate(8192);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(refused.status().message().find("8192 bytes"),
            absl::string_view::npos);
  large->Reset();
  EXPECT_TRUE(pool->Allocate(8192).ok());
}

TEST_F(PinnedMemoryTest, KeepsNoMoreIdleThanAllowed) {
  const auto pool = PinnedPool::Create(
      context_.get(), {.total_bytes = 1 << 20, .idle_bytes = 4096});
  {
    const auto first = pool->Allocate(4096);
    const auto second = pool->Allocate(4096);
  }
  EXPECT_EQ(fake_.CountOf("cuMemFreeHost"), 1);
  EXPECT_EQ(pool->use().idle_bytes, 4096);
  EXPECT_EQ(pool->use().in_use_bytes, 0) << "what was freed is in use no more";
}

TEST_F(PinnedMemoryTest, ARefusalOfTheDriverIsNotCountedAsUse) {
  const auto pool = PinnedPool::Create(context_.get(), {.total_bytes = 4096});
  fake_.Fail("cuMemHostAlloc", CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(pool->Allocate(4096).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(pool->Allocate(4096).ok());
}

TEST_F(PinnedMemoryTest, SaysWhatIsInUseAndWhatIsIdle) {
  const auto pool = PinnedPool::Create(
      context_.get(), {.total_bytes = 1 << 20, .idle_bytes = 4096});
  const auto first = pool->Allocate(5000);
  { const auto second = pool->Allocate(4096); }
  const device::PinnedMemory use = pool->use();
  EXPECT_EQ(use.in_use_bytes, PinnedPool::SizeClass(5000));
  EXPECT_EQ(use.idle_bytes, 4096);
  EXPECT_EQ(use.limit_bytes, 1 << 20);
}

TEST_F(PinnedMemoryTest, GivesEverythingBack) {
  auto pool = PinnedPool::Create(context_.get(), {});
  auto buffer = pool->Allocate(1);
  ASSERT_TRUE(buffer.ok());
  pool.reset();  // The buffer keeps it alive.
  buffer->Reset();
  context_.reset();
  EXPECT_EQ(fake_.live(), 0u);
}

}  // namespace
}  // namespace gemmd::gpu
