#include "jit/cache/kernel_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "tests/jit/cache/kernel_cache_fixture.h"

namespace gemmd::jit {
namespace {

namespace fs = std::filesystem;

TEST_F(KernelCacheTest, AnswersFromMemoryThenFromDisk) {
  auto cache = Open();
  const absl::StatusOr<CacheResult> first = cache->Get(instance_, Soon());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->source, CubinSource::kCompiled);
  EXPECT_EQ(first->kernel->registers, 42);
  EXPECT_EQ(cache->Get(instance_, Soon())->source, CubinSource::kMemory);
  EXPECT_EQ(cache->statistics().compiles, 1);
  EXPECT_EQ(cache->statistics().memory_hits, 1);

  cache = Open();
  const absl::StatusOr<CacheResult> again = cache->Get(instance_, Soon());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->source, CubinSource::kDisk);
  EXPECT_EQ(again->kernel->cubin, first->kernel->cubin);
  EXPECT_EQ(cache->statistics().disk_hits, 1);
  EXPECT_EQ(control_->compiles, 1);
}

TEST_F(KernelCacheTest, CompilesOnceForManyCallers) {
  absl::Notification go;
  CompileAfter(go);
  auto cache = Open();
  std::vector<std::thread> callers;
  std::atomic<int> served = 0, told_compiled = 0;
  for (int i = 0; i < 16; ++i) {
    callers.emplace_back([&] {
      const absl::StatusOr<CacheResult> result = cache->Get(instance_, Soon());
      served += result.ok();
      told_compiled += result.ok() && result->source == CubinSource::kCompiled;
    });
  }
  while (control_->running == 0) absl::SleepFor(absl::Milliseconds(1));
  go.Notify();
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(served, 16);
  EXPECT_EQ(control_->compiles, 1);
  EXPECT_EQ(told_compiled, 1);
}

TEST_F(KernelCacheTest, HoldsACallersDeadlineAndGoesOnCompiling) {
  absl::Notification go;
  CompileAfter(go);
  auto cache = Open();
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      cache->Get(instance_, absl::Now() + absl::Milliseconds(20)).status()));
  go.Notify();
  EXPECT_TRUE(cache->Get(instance_, Soon()).ok());
  EXPECT_EQ(control_->compiles, 1);
}

TEST_F(KernelCacheTest, ACallerMayWaitForAsLongAsItTakes) {
  control_->behave = [](const Instance&, absl::Time) {
    absl::SleepFor(absl::Milliseconds(50));
    return CompileOutput{.cubin = FakeCubin(), .log = FakeLog()};
  };
  const absl::Status status =
      Open()->Get(instance_, absl::InfiniteFuture()).status();
  EXPECT_TRUE(status.ok()) << status;
}

// Whoever asks for what the cache has does not queue behind compiles.
TEST_F(KernelCacheTest, CompilesHoldUpNoHit) {
  const Instance gotten = {.name = "two", .source = "two"};
  const Instance busy = {.name = "busy", .source = "busy"};
  const Instance absent = {.name = "absent", .source = "absent"};
  for (const Instance& instance : {instance_, gotten}) {
    ASSERT_TRUE(Open()->Get(instance, Soon()).ok());
  }
  absl::Notification go;
  CompileAfter(go);
  auto cache = Create({.directory = directory_.path(), .compile_jobs = 1});
  const auto start = [](auto look) {
    return std::async(std::launch::async, look);
  };
  auto compile = start([&] { return cache->Get(busy, Soon()); });
  while (control_->running == 0) absl::SleepFor(absl::Milliseconds(1));
  const auto found = [](const absl::StatusOr<CacheResult>& result) {
    return result.ok() ? std::optional(result->source) : std::nullopt;
  };
  auto looks = start([&] {
    EXPECT_EQ(found(cache->Lookup(instance_)), CubinSource::kDisk);
    EXPECT_EQ(found(cache->Lookup(instance_)), CubinSource::kMemory);
    EXPECT_EQ(found(cache->Get(gotten, Soon())), CubinSource::kDisk);
    EXPECT_EQ(found(cache->Lookup(busy)), std::nullopt);
    EXPECT_EQ(found(cache->Lookup(absent)), std::nullopt);
  });
  EXPECT_EQ(looks.wait_for(std::chrono::seconds(20)),
            std::future_status::ready);
  go.Notify();
  EXPECT_TRUE(compile.get().ok());
  EXPECT_EQ(control_->compiles, 3);
}

TEST_F(KernelCacheTest, WithoutACompilerServesWhatAnyCompilerMade) {
  EXPECT_TRUE(
      absl::IsFailedPrecondition(Open(false)->Get(instance_, Soon()).status()));
  ASSERT_TRUE(Open()->Get(instance_, Soon()).ok());
  auto cache = Open(false);
  EXPECT_EQ(cache->Get(instance_, Soon())->source, CubinSource::kDisk);
  EXPECT_EQ(cache->Get(instance_, Soon())->source, CubinSource::kMemory);
  const absl::Status status =
      cache->Get({.name = "two", .source = "two"}, Soon()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_TRUE(absl::StrContains(status.message(), "nvidia-cuda-nvrtc"));
}

// What is in memory needs no directory, and so no time to list one.
TEST_F(KernelCacheTest, WithoutACompilerMemoryServesWithoutTheDisk) {
  ASSERT_TRUE(Open()->Get(instance_, Soon()).ok());
  auto cache = Open(false);
  const std::string key = cache->Get(instance_, Soon())->kernel->key;
  fs::remove_all(directory_.path());
  EXPECT_EQ(cache->Get(instance_, Soon())->source, CubinSource::kMemory);
  // Forgotten by memory, it is gone, though its key was known.
  cache->Evict(key).IgnoreError();
  EXPECT_TRUE(
      absl::IsFailedPrecondition(cache->Get(instance_, Soon()).status()));
}

// Else its entry would be damage to whoever reads it next.
TEST_F(KernelCacheTest, ControlCharactersInALogDoNotReachAnEntry) {
  control_->behave = [](const Instance&, absl::Time) {
    return CompileOutput{.cubin = FakeCubin(), .log = FakeLog() + "\033[2J\n"};
  };
  const absl::StatusOr<CacheResult> first = Open()->Get(instance_, Soon());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(absl::EndsWith(first->kernel->log, "?[2J\n"));
  EXPECT_EQ(first->kernel->static_shared_memory_bytes, 1024);
  const absl::StatusOr<CacheResult> again = Open()->Get(instance_, Soon());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->source, CubinSource::kDisk);
  EXPECT_EQ(again->kernel->log, first->kernel->log);
}

TEST_F(KernelCacheTest, MeasuresTheUseOfATier) {
  const auto cubin_bytes = static_cast<int64_t>(FakeCubin().size());
  auto cache = Open();
  ASSERT_TRUE(cache->Get(instance_, Soon()).ok());
  cache->Flush();
  TierStatistics disk = cache->statistics().tiers.at(0);
  EXPECT_EQ(disk.name, "disk");
  EXPECT_EQ(disk.hits, 0);
  EXPECT_EQ(disk.misses, 1);
  EXPECT_EQ(disk.bytes_loaded, 0);
  EXPECT_EQ(disk.bytes_stored, cubin_bytes);
  cache = Open();
  const std::string key = cache->Get(instance_, Soon())->kernel->key;
  disk = cache->statistics().tiers.at(0);
  EXPECT_EQ(disk.hits, 1);
  EXPECT_EQ(disk.misses, 0);
  EXPECT_EQ(disk.errors, 0);
  EXPECT_EQ(disk.bytes_loaded, cubin_bytes);
  EXPECT_EQ(disk.bytes_stored, 0);
  std::ofstream(EntryFile(key), std::ios::trunc) << "garbage";
  cache = Open();
  ASSERT_TRUE(cache->Get(instance_, Soon()).ok());
  EXPECT_EQ(cache->statistics().tiers.at(0).errors, 1);
}

// The daemon looks before it waits for a compile.
TEST_F(KernelCacheTest, AMissIsCountedOnce) {
  auto cache = Open();
  EXPECT_TRUE(absl::IsNotFound(cache->Lookup(instance_).status()));
  ASSERT_TRUE(cache->Get(instance_, Soon()).ok());
  EXPECT_EQ(cache->statistics().tiers.at(0).misses, 1);
}

TEST_F(KernelCacheTest, RequiredToBeCompleteItCompilesNothing) {
  ASSERT_TRUE(Open()->Get(instance_, Soon()).ok());
  auto cache =
      Create({.directory = directory_.path(), .require_complete = true});
  EXPECT_EQ(cache->Get(instance_, Soon())->source, CubinSource::kDisk);
  const absl::Status status =
      cache->Get({.name = "gemm_two", .source = "two"}, Soon()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_TRUE(absl::StrContains(status.message(), "gemm_two")) << status;
  EXPECT_EQ(control_->compiles, 1);
}

TEST_F(KernelCacheTest, PutsAsideWhatADeviceRefused) {
  auto cache = Open();
  const std::string key = cache->Get(instance_, Soon())->kernel->key;
  cache->Flush();
  // As if the next compile made other bytes.
  control_->behave = [](const Instance&, absl::Time) {
    return CompileOutput{.cubin = FakeCubin() + "other", .log = FakeLog()};
  };
  cache->Quarantine(key);
  EXPECT_TRUE(fs::exists(In("quarantine") / key));
  EXPECT_EQ(cache->statistics().quarantined, 1);
  EXPECT_EQ(cache->Get(instance_, Soon())->source, CubinSource::kCompiled);
}

TEST_F(KernelCacheTest, ListsFindsAndEvicts) {
  auto cache = Open();
  const std::string key = cache->Get(instance_, Soon())->kernel->key;
  ASSERT_EQ(cache->List("", 10).size(), 1u);
  cache = Open();
  ASSERT_EQ(cache->List("", 10).size(), 1u);
  EXPECT_EQ((*cache->Find(key))->name, "one");
  EXPECT_TRUE(cache->Evict(key).ok());
  EXPECT_TRUE(absl::IsNotFound(cache->Evict(key)));
  EXPECT_TRUE(absl::IsNotFound(cache->Find(key).status()));
  EXPECT_TRUE(absl::IsNotFound(cache->Find("../../etc/passwd").status()));
  EXPECT_TRUE(cache->List("", 10).empty());
}

// Else it would come back.
TEST_F(KernelCacheTest, WhatCannotBeRemovedIsNotSaidToBeEvicted) {
  auto cache = Open();
  const std::string key = cache->Get(instance_, Soon())->kernel->key;
  cache->Flush();
  fs::permissions(In("entries"), fs::perms::all);
  const absl::Status status = cache->Evict(key);
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  fs::permissions(In("entries"), fs::perms::owner_all);
  EXPECT_TRUE(cache->Evict(key).ok());
}

// Of entries on disk it reads the start alone: a cache may be large.
TEST_F(KernelCacheTest, ListsAPageAtATime) {
  control_->behave = [](const Instance&, absl::Time) {
    return CompileOutput{.cubin = FakeCubin() + std::string(kSummaryBytes, 'x'),
                         .log = FakeLog()};
  };
  auto cache = Open();
  std::set<std::string> keys;
  for (int i = 0; i < 7; ++i) {
    keys.insert(cache->Get({.name = "k", .source = std::to_string(i)}, Soon())
                    ->kernel->key);
  }
  for (const bool in_memory : {true, false}) {
    if (!in_memory) {
      cache = Open();
      for (const std::string& key : keys) {
        fs::resize_file(EntryFile(key), kSummaryBytes);
      }
    }
    std::vector<std::string> listed;
    std::string after;
    while (true) {
      const std::vector<EntrySummary> page = cache->List(after, 3);
      ASSERT_LE(page.size(), 3u);
      if (page.empty()) break;
      for (const EntrySummary& kernel : page) listed.push_back(kernel.key);
      after = page.back().key;
    }
    EXPECT_EQ(listed, std::vector<std::string>(keys.begin(), keys.end()));
  }
}

// Else a list would end where a whole page of it is.
TEST_F(KernelCacheTest, WhatIsDamagedIsPassedOverByAList) {
  auto cache = Open();
  std::set<std::string> keys;
  for (int i = 0; i < 5; ++i) {
    keys.insert(cache->Get({.name = "k", .source = std::to_string(i)}, Soon())
                    ->kernel->key);
  }
  cache = Open();
  for (int i = 0; i < 3; ++i) {
    std::ofstream(EntryFile(*keys.begin()), std::ios::trunc) << "garbage";
    keys.erase(keys.begin());
  }
  std::set<std::string> listed;
  for (const EntrySummary& kernel : cache->List("", 2)) {
    listed.insert(kernel.key);
  }
  EXPECT_EQ(listed, keys);
}

}  // namespace
}  // namespace gemmd::jit
