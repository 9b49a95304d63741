// Kernels that another process is making: how long they are waited for, and who
// waits.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "jit/cache/disk_store.h"
#include "jit/cache/key_lock.h"
#include "tests/jit/cache/kernel_cache_fixture.h"

namespace gemmd::jit {
namespace {

using Answer = std::future<absl::StatusOr<CacheResult>>;

// Both outlive the answer.
Answer GetAside(KernelCache& cache, const Instance& instance) {
  return std::async(std::launch::async,
                    [&] { return cache.Get(instance, Soon()); });
}

// Stopped, it holds the locks of what it was making for as long as it likes.
TEST_F(KernelCacheTest, AProcessThatStoppedIsNotWaitedForLong) {
  constexpr absl::Duration kLockTimeout = absl::Seconds(1);
  constexpr int kLocked = 4;
  std::vector<std::string> warnings;
  auto cache = Create(
      {.directory = directory_.path(),
       .compile_jobs = 1,
       .lock_timeout = kLockTimeout,
       .warn = [&](const std::string& text) { warnings.push_back(text); }});
  std::vector<Instance> instances;
  std::vector<KeyLock> locks;
  for (int i = 0; i < kLocked; ++i) {
    instances.push_back({.name = "locked", .source = std::to_string(i)});
    locks.emplace_back(directory_.path(), Key(instances.back()));
  }
  instances.push_back({.name = "free", .source = "free"});
  const absl::Time start = absl::Now();
  std::vector<Answer> results;
  for (const Instance& instance : instances) {
    results.push_back(GetAside(*cache, instance));
  }
  for (auto& result : results) {
    const absl::StatusOr<CacheResult> got = result.get();
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->source, CubinSource::kCompiled);
  }
  // All of them are waited for at the same time.
  EXPECT_GE(absl::Now() - start, kLockTimeout);
  EXPECT_LT(absl::Now() - start, kLocked * kLockTimeout);
  ASSERT_EQ(warnings.size(), size_t{kLocked});
  EXPECT_TRUE(absl::StrContains(warnings[0],
                                "another process began to make "
                                "kernel locked"))
      << warnings[0];
  // They lie in the directory all the same.
  cache->Flush();
  EXPECT_EQ(Open()->List("", 10).size(), instances.size());
}

// However many it holds: one thread makes all that it does not.
TEST_F(KernelCacheTest, KernelsThatAnotherProcessMakesHoldUpNoOthers) {
  auto cache = Create({.directory = directory_.path(),
                       .compile_jobs = 1,
                       .lock_timeout = absl::InfiniteDuration()});
  std::vector<Instance> instances;
  std::vector<KeyLock> locks;
  std::vector<Answer> results;
  for (int i = 0; i < 4; ++i) {
    instances.push_back({.name = "locked", .source = std::to_string(i)});
    locks.emplace_back(directory_.path(), Key(instances.back()));
  }
  for (const Instance& instance : instances) {
    results.push_back(GetAside(*cache, instance));
    EXPECT_TRUE(
        absl::IsAborted(cache->GetUnlessElsewhere(instance, Soon()).status()));
  }
  EXPECT_TRUE(cache->Get(instance_, Soon()).ok());
  EXPECT_EQ(control_->compiles, 1);
  // The first was made there, the others never are.
  FakeCompiler other(std::make_shared<FakeCompiler::Control>());
  const auto made = BuildKernel(other, instances[0], Soon());
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_TRUE(DiskStore({.directory = directory_.path()}).Store(*made).ok());
  locks.clear();
  for (auto& result : results) {
    const absl::StatusOr<CacheResult> got = result.get();
    EXPECT_TRUE(got.ok()) << got.status();
  }
  EXPECT_TRUE(cache->GetUnlessElsewhere(instances[1], Soon()).ok());
  EXPECT_EQ(control_->compiles, 4);
}

// One that ended without it.
TEST_F(KernelCacheTest, AKernelThatIsMadeHereAfterAllIsElsewhereNoMore) {
  absl::Notification go;
  CompileAfter(go);
  auto cache = Create({.directory = directory_.path(),
                       .lock_timeout = absl::InfiniteDuration()});
  auto lock = std::make_unique<KeyLock>(directory_.path(), Key(instance_));
  Answer result = GetAside(*cache, instance_);
  EXPECT_TRUE(
      absl::IsAborted(cache->GetUnlessElsewhere(instance_, Soon()).status()));
  lock.reset();
  while (control_->running == 0) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      cache->GetUnlessElsewhere(instance_, absl::Now() + absl::Milliseconds(20))
          .status()));
  go.Notify();
  EXPECT_TRUE(result.get().ok());
}

TEST_F(KernelCacheTest, TheEndDoesNotWaitForAnotherProcess) {
  auto cache = Create({.directory = directory_.path(),
                       .lock_timeout = absl::InfiniteDuration()});
  const KeyLock lock(directory_.path(), Key(instance_));
  Answer result = GetAside(*cache, instance_);
  EXPECT_TRUE(
      absl::IsAborted(cache->GetUnlessElsewhere(instance_, Soon()).status()));
  cache->GiveUp();
  EXPECT_TRUE(absl::IsUnavailable(result.get().status()));
  EXPECT_EQ(control_->compiles, 0);
}

}  // namespace
}  // namespace gemmd::jit
