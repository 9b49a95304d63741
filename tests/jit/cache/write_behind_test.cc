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
#include "absl/strings/str_cat.h"

namespace gemmd::jit {
namespace {

using ::testing::Contains;
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

// What happens to kernels, each of a byte, under a writer of its own.
class WriteBehindEndTest : public ::testing::Test {
 protected:
  std::unique_ptr<WriteBehind> Make(int64_t limit_bytes = 100) {
    return std::make_unique<WriteBehind>(WriteBehind::Options{
        .write =
            [this](const CompiledKernel& kernel) {
              Note("write " + kernel.key);
              if (kernel.key == "wait") go_.acquire();
              return kernel.key == "bad" ? absl::UnavailableError("full")
                                         : absl::OkStatus();
            },
        .tidy = [this] { Note("tidy"); },
        .interval = absl::Hours(1),
        .failed =
            [this](const absl::Status& status) {
              Note(absl::StrCat("failed: ", status.message()));
            },
        .limit_bytes = limit_bytes});
  }

  static KernelPointer OfAByte(const std::string& key) {
    auto kernel = std::make_shared<CompiledKernel>();
    kernel->key = key;
    kernel->cubin = "x";
    return kernel;
  }
  // Notes when it is released.
  std::shared_ptr<const void> Lock(const std::string& key) {
    return {nullptr, [this, key](const void*) { Note("release " + key); }};
  }
  void Note(const std::string& what) {
    std::lock_guard lock(mutex_);
    notes_.push_back(what);
  }
  std::vector<std::string> notes() {
    std::lock_guard lock(mutex_);
    return notes_;
  }

  std::counting_semaphore<> go_{0};
  std::mutex mutex_;
  std::vector<std::string> notes_ ABSL_GUARDED_BY(mutex_);
};

// Whoever waits for the lock looks into the directory next.
TEST_F(WriteBehindEndTest, ALockIsHeldUntilItsKernelIsWritten) {
  auto writer = Make();
  writer->Write(OfAByte("a"), Lock("a"));
  writer->Write(OfAByte("bad"), Lock("bad"));
  writer->Flush();
  EXPECT_THAT(notes(), ElementsAre("tidy", "write a", "release a", "write bad",
                                   "release bad", "failed: full"));
}

TEST_F(WriteBehindEndTest, TheEndWritesWhatWaits) {
  auto writer = Make();
  for (const char* key : {"wait", "a", "b"}) {
    writer->Write(OfAByte(key), nullptr);
  }
  go_.release();
  writer.reset();
  EXPECT_THAT(notes(),
              ElementsAre("tidy", "write wait", "write a", "write b", "tidy"));
}

// Else it would take as many times the wait for a lock that somebody holds.
TEST_F(WriteBehindEndTest, TheEndTriesNoMoreAfterAFailure) {
  auto writer = Make();
  for (const char* key : {"bad", "a", "wait", "bad", "b", "c"}) {
    writer->Write(OfAByte(key), nullptr);
  }
  while (notes().size() < 5) std::this_thread::yield();  // "write wait".
  std::promise<void> begins;
  auto end = std::async(std::launch::async, [&] {
    begins.set_value();
    writer.reset();
  });
  begins.get_future().wait();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  go_.release();
  end.get();
  EXPECT_THAT(notes(),
              ElementsAre("tidy", "write bad", "failed: full", "write a",
                          "write wait", "write bad", "failed: full",
                          "failed: not written before the end",
                          "failed: not written before the end", "tidy"));
}

TEST_F(WriteBehindEndTest, WhatWaitsIsBounded) {
  auto writer = Make(/*limit_bytes=*/2);
  writer->Write(OfAByte("wait"), nullptr);
  writer->Write(OfAByte("a"), nullptr);
  EXPECT_TRUE(writer->Remove("a"));
  writer->Write(OfAByte("b"), nullptr);
  writer->Write(OfAByte("c"), nullptr);
  EXPECT_NE(writer->Find("b"), nullptr);
  EXPECT_EQ(writer->Find("c"), nullptr);
  EXPECT_THAT(notes(), Contains("failed: too many kernels wait to be written"));
  go_.release();
  writer->Flush();
  // What is written makes room, too.
  for (const char* key : {"d", "e"}) {
    writer->Write(OfAByte(key), nullptr);
    writer->Flush();
  }
  EXPECT_THAT(notes(), Contains("write e"));
}

// One that was made again while the first of its key is written.
TEST_F(WriteBehindEndTest, TheLatestOfAKeyIsFoundUntilItIsWritten) {
  auto writer = Make();
  writer->Write(OfAByte("wait"), nullptr);
  const KernelPointer latest = OfAByte("wait");
  writer->Write(latest, nullptr);
  go_.release();
  while (notes().size() < 3) std::this_thread::yield();
  EXPECT_EQ(writer->Find("wait"), latest);
  go_.release();
  writer->Flush();
  EXPECT_EQ(writer->Find("wait"), nullptr);
}

}  // namespace
}  // namespace gemmd::jit
