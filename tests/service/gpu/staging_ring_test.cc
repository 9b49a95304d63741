// Uploads whose staging memory several threads fill.
#include "service/gpu/staging_ring.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "service/gpu/cuda_device.h"
#include "tests/service/gpu/fake_driver.h"

namespace gemmd::gpu {
namespace {

constexpr jit::MatrixLayout kLayout = {jit::DataType::kBf16,
                                       jit::Order::kRowMajor, 40, 21};
constexpr int64_t kWidth = 42;  // Bytes of a line; 48 on the device,
constexpr int64_t kPitch = 45;  // and so many apart in what is sent.

class StagingRingTest : public testing::Test {
 protected:
  StagingRingTest() {
    for (int64_t i = 0; i < 39 * kPitch + kWidth; ++i) {
      bytes_ += static_cast<char>('a' + i * 7 % 26);
    }
    for (int64_t line = 0; line < kLayout.lines(); ++line) {
      expected_ += bytes_.substr(line * kPitch, kWidth);
    }
  }

  // What comes back of `bytes_`, sent in pieces of 11, by chunks of 500 bytes.
  std::string SendAndFetch(int64_t least_shared_bytes, int64_t part_bytes,
                           std::shared_ptr<CopyThreads> helpers) {
    Options options;
    options.staging = {.chunks = 2,
                       .chunk_bytes = 500,
                       .helpers = std::move(helpers),
                       .least_shared_bytes = least_shared_bytes,
                       .part_bytes = part_bytes};
    const auto device = *CudaDevice::Open(fake_.table(), 0, options);
    const auto lane = *device->CreateLane();
    std::vector<absl::Span<const char>> pieces;
    for (size_t at = 0; at < bytes_.size(); at += 11) {
      pieces.push_back(absl::MakeConstSpan(bytes_).subspan(at, 11));
    }
    const device::LineRange all = {0, kLayout.lines()};
    auto matrix = *lane->Allocate(kLayout);
    const absl::Status sent = lane->Upload({pieces, kPitch}, all, *matrix);
    EXPECT_TRUE(sent.ok()) << sent;
    const auto buffer = *lane->Download(*matrix, all, kWidth);
    return {buffer->bytes().data(), buffer->bytes().size()};
  }

  FakeDriver fake_;
  std::string bytes_;
  std::string expected_;
};

TEST_F(StagingRingTest, WhateverPartsThreadsTakeTheMatrixIsTheSame) {
  const auto helpers = std::make_shared<CopyThreads>(3);
  for (const int64_t part : {1, 2, 7, 47, 48, 49, 100, 499, 500, 501, 9999}) {
    EXPECT_EQ(SendAndFetch(1, part, helpers), expected_) << part;
  }
  EXPECT_EQ(SendAndFetch(1, 7, std::make_shared<CopyThreads>(0)), expected_);
  EXPECT_EQ(SendAndFetch(1, 7, nullptr), expected_);
}

// The last chunk has 420 bytes.
TEST_F(StagingRingTest, TheLeastThatIsSharedIsAChunkOrPartOfOne) {
  const auto helpers = std::make_shared<CopyThreads>(2);
  for (const int64_t least : {419, 420, 421, 499, 500, 501}) {
    EXPECT_EQ(SendAndFetch(least, 64, helpers), expected_) << least;
  }
}

TEST_F(StagingRingTest, WhereThreadsHelpOthersTheLaneCopiesAlone) {
  const auto helpers = std::make_shared<CopyThreads>(1);
  absl::Notification end;
  absl::BlockingCounter begun(2);
  std::thread other([&] {
    helpers->Share([&] {
      begun.DecrementCount();
      EXPECT_TRUE(end.WaitForNotificationWithTimeout(absl::Seconds(30)));
    });
  });
  begun.Wait();
  EXPECT_EQ(SendAndFetch(1, 64, helpers), expected_);
  end.Notify();
  other.join();
}

// A lane and its device keep them no longer than they live.
TEST_F(StagingRingTest, ThreadsEndWithTheLastWhoHasThem) {
  std::weak_ptr<CopyThreads> threads;
  {
    const auto helpers = std::make_shared<CopyThreads>(2);
    threads = helpers;
    EXPECT_EQ(SendAndFetch(1, 64, helpers), expected_);
    EXPECT_EQ(helpers.use_count(), 1);
  }
  EXPECT_TRUE(threads.expired());
}

}  // namespace
}  // namespace gemmd::gpu
