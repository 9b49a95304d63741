#include "jit/cache/write_behind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"

namespace gemmd::jit {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Far longer than anything takes that works.
constexpr std::chrono::seconds kPatience(60);
constexpr int kMany = 100;

KernelPointer Kernel(const std::string& key) {
  auto kernel = std::make_shared<CompiledKernel>();
  kernel->key = key;
  return kernel;
}

class WriteBehindTest : public ::testing::Test {
 protected:
  ~WriteBehindTest() override { LetWrite(); }

  void Write(const std::string& key) { writer_.Write(Kernel(key), nullptr); }
  bool HasBegun() { return begun_.try_acquire_for(kPatience); }
  void LetWrite() { let_.release(kMany); }
  std::vector<std::string> written() {
    std::lock_guard lock(mutex_);
    return written_;
  }

  std::counting_semaphore<> begun_{0};
  std::counting_semaphore<> let_{0};
  std::mutex mutex_;
  std::vector<std::string> written_ ABSL_GUARDED_BY(mutex_);
  WriteBehind writer_{{.write =
                           [this](const CompiledKernel& kernel) {
                             begun_.release();
                             EXPECT_TRUE(let_.try_acquire_for(kPatience));
                             std::lock_guard lock(mutex_);
                             written_.push_back(kernel.key);
                             return absl::OkStatus();
                           },
                       .tidy = [] {},
                       .failed = [](const absl::Status&) {}}};
};

TEST_F(WriteBehindTest, WhatWaitsIsFoundUntilItIsWritten) {
  Write("a");
  ASSERT_TRUE(HasBegun());
  Write("b");
  EXPECT_NE(writer_.Find("a"), nullptr);
  EXPECT_NE(writer_.Find("b"), nullptr);
  LetWrite();
  writer_.Flush();
  EXPECT_EQ(writer_.Find("a"), nullptr);
  EXPECT_THAT(writer_.List(), IsEmpty());
  EXPECT_THAT(written(), ElementsAre("a", "b"));
}

// A directory may take seconds for it.
TEST_F(WriteBehindTest, RemovingOneWaitsForNoWriteOfAnother) {
  Write("a");
  ASSERT_TRUE(HasBegun());
  Write("b");
  Write("c");
  EXPECT_TRUE(writer_.Remove("b"));
  EXPECT_FALSE(writer_.Remove("d"));
  EXPECT_THAT(written(), IsEmpty());
  LetWrite();
  writer_.Flush();
  EXPECT_THAT(written(), ElementsAre("a", "c"));
}

// Who removes it looks into the directory next.
TEST_F(WriteBehindTest, RemovingOneWaitsForItsOwnWrite) {
  Write("a");
  ASSERT_TRUE(HasBegun());
  auto removed = std::async(std::launch::async, [this] {
    EXPECT_TRUE(writer_.Remove("a"));
    return written();
  });
  while (writer_.Find("a") != nullptr) std::this_thread::yield();
  LetWrite();
  EXPECT_THAT(removed.get(), ElementsAre("a"));
}

}  // namespace
}  // namespace gemmd::jit
