#include "jit/cache/kernel_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "jit/base/file.h"
#include "jit/cache/build_kernel.h"
#include "jit/cache/disk_store.h"
#include "jit/cache/key_lock.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {
namespace {

namespace fs = std::filesystem;

absl::Time Soon() { return absl::Now() + absl::Seconds(30); }

class KernelCacheTest : public testing::Test {
 protected:
  std::unique_ptr<KernelCache> Open(bool with_compiler = true) {
    return KernelCache::Create(
        {.directory = directory_.path(),
         .compile_jobs = 2,
         .warn = [this](const std::string& text) { warnings_ = text; }},
        with_compiler ? std::make_unique<FakeCompiler>(control_) : nullptr);
  }

  fs::path EntryFile(const std::string& key) const {
    return fs::path(directory_.path()) / "entries" / key;
  }

  TemporaryDirectory directory_;
  std::shared_ptr<FakeCompiler::Control> control_ =
      std::make_shared<FakeCompiler::Control>();
  std::string warnings_;
  const Instance instance_ = {.name = "one", .source = "one"};
};

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
  control_->behave = [&](const Instance&, absl::Time) {
    go.WaitForNotification();
    return CompileOutput{.cubin = FakeCubin(), .log = FakeLog()};
  };
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
  control_->behave = [&](const Instance&, absl::Time) {
    go.WaitForNotification();
    return CompileOutput{.cubin = FakeCubin(), .log = FakeLog()};
  };
  auto cache = Open();
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      cache->Get(instance_, absl::Now() + absl::Milliseconds(20)).status()));
  go.Notify();
  EXPECT_TRUE(cache->Get(instance_, Soon()).ok());
  EXPECT_EQ(control_->compiles, 1);
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
  control_->behave = [&](const Instance&, absl::Time) {
    go.WaitForNotification();
    return CompileOutput{.cubin = FakeCubin(), .log = FakeLog()};
  };
  auto cache =
      KernelCache::Create({.directory = directory_.path(), .compile_jobs = 1},
                          std::make_unique<FakeCompiler>(control_));
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

TEST_F(KernelCacheTest, ReportsWhatTheCompilerSaid) {
  control_->behave = [](const Instance&, absl::Time) {
    return absl::InternalError("line 7: nonsense");
  };
  auto cache = Open();
  const absl::Status status = cache->Get(instance_, Soon()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(absl::StrContains(status.message(), "line 7: nonsense"));
  EXPECT_EQ(cache->statistics().compile_errors, 1);
  EXPECT_TRUE(cache->List("", 10).empty());
}

TEST_F(KernelCacheTest, RefusesAKernelWithoutTheEntryPoint) {
  control_->behave = [](const Instance&, absl::Time) {
    return CompileOutput{.cubin = FakeCubin(42, 90, "other"), .log = FakeLog()};
  };
  EXPECT_EQ(Open()->Get(instance_, Soon()).status().code(),
            absl::StatusCode::kInternal);
}

TEST_F(KernelCacheTest, QuarantinesADamagedEntryAndCompilesAgain) {
  const std::string key = Open()->Get(instance_, Soon())->kernel->key;
  for (const std::string damage : {"", "garbage"}) {
    std::ofstream(EntryFile(key), std::ios::trunc) << damage;
    auto cache = Open();
    const absl::StatusOr<CacheResult> result = cache->Get(instance_, Soon());
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->source, CubinSource::kCompiled);
    EXPECT_EQ(cache->statistics().quarantined, 1);
    EXPECT_TRUE(fs::exists(fs::path(directory_.path()) / "quarantine" / key));
    EXPECT_TRUE(absl::StrContains(warnings_, key)) << warnings_;
    EXPECT_EQ(Open()->Get(instance_, Soon())->source, CubinSource::kDisk);
  }
}

TEST_F(KernelCacheTest, WorksWhenTheDirectoryCannotBeWritten) {
  // A file in place of the folder stops even root.
  std::ofstream(fs::path(directory_.path()) / "entries") << "in the way";
  auto cache = Open();
  const absl::StatusOr<CacheResult> result = cache->Get(instance_, Soon());
  ASSERT_TRUE(result.ok()) << result.status();
  cache->Flush();
  EXPECT_EQ(cache->statistics().write_errors, 1);
  EXPECT_TRUE(absl::StrContains(warnings_, directory_.path())) << warnings_;
  EXPECT_EQ(cache->Get(instance_, Soon())->source, CubinSource::kMemory);
}

TEST_F(KernelCacheTest, SurvivesTheLossOfItsDirectory) {
  auto cache = Open();
  ASSERT_TRUE(cache->Get(instance_, Soon()).ok());
  cache->Flush();
  fs::remove_all(directory_.path());
  ASSERT_TRUE(cache->Get({.name = "two", .source = "two"}, Soon()).ok());
  cache->Flush();
  EXPECT_EQ(cache->statistics().write_errors, 0);
  EXPECT_EQ(Open()->List("", 10).size(), 1u);
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

TEST_F(KernelCacheTest, RefusesWhatWasRejectedWithoutCompilingAgain) {
  control_->behave = [](const Instance&, absl::Time) {
    return absl::InternalError("nonsense");
  };
  auto cache = Open();
  const absl::Status first = cache->Get(instance_, Soon()).status();
  EXPECT_EQ(cache->Get(instance_, Soon()).status(), first);
  EXPECT_EQ(control_->compiles, 1);
  EXPECT_EQ(cache->statistics().rejected_at_once, 1);
  // Another source is another matter.
  cache->Get({.name = "one", .source = "two"}, Soon()).status().IgnoreError();
  EXPECT_EQ(control_->compiles, 2);
}

TEST_F(KernelCacheTest, TriesAgainWhenTheCompilerWasInTrouble) {
  for (const absl::Status& trouble : {absl::UnavailableError("killed"),
                                      absl::ResourceExhaustedError("no memory"),
                                      absl::DeadlineExceededError("no time")}) {
    control_->behave = [&](const Instance&, absl::Time) { return trouble; };
    auto cache = KernelCache::Create({.crash_pause = absl::Nanoseconds(1)},
                                     std::make_unique<FakeCompiler>(control_));
    const int before = control_->compiles;
    EXPECT_EQ(cache->Get(instance_, Soon()).status().code(), trouble.code());
    EXPECT_EQ(cache->Get(instance_, Soon()).status().code(), trouble.code());
    EXPECT_EQ(control_->compiles, before + 2);
  }
}

// A source that crashes the compiler would otherwise keep it busy for ever.
TEST_F(KernelCacheTest, PausesAfterACrashBeforeItTriesAgain) {
  control_->behave = [](const Instance&, absl::Time) {
    return absl::UnavailableError("crashed");
  };
  auto cache = Open();
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(cache->Get(instance_, Soon()).status().code(),
              absl::StatusCode::kUnavailable);
  }
  EXPECT_EQ(control_->compiles, 1);
  EXPECT_EQ(cache->statistics().rejected_at_once, 9);
}

TEST_F(KernelCacheTest, EachCrashInARowDoublesThePause) {
  control_->behave = [](const Instance&, absl::Time) {
    return absl::UnavailableError("crashed");
  };
  constexpr absl::Duration kPause = absl::Milliseconds(40);
  auto cache = KernelCache::Create({.crash_pause = kPause},
                                   std::make_unique<FakeCompiler>(control_));
  const absl::Time start = absl::Now();
  while (control_->compiles < 4) {
    cache->Get(instance_, Soon()).status().IgnoreError();
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_GE(absl::Now() - start, (1 + 2 + 4) * kPause);
}

TEST_F(KernelCacheTest, AnEvictionForgetsARejection) {
  control_->behave = [](const Instance&, absl::Time) {
    return absl::InternalError("nonsense");
  };
  auto cache = Open();
  EXPECT_FALSE(cache->Get(instance_, Soon()).ok());
  const std::string key = KeyOf(FakeCompiler(control_), instance_);
  cache->Evict(key).IgnoreError();
  EXPECT_FALSE(cache->Get(instance_, Soon()).ok());
  EXPECT_EQ(control_->compiles, 2);
}

// The daemon looks before it waits for a compile.
TEST_F(KernelCacheTest, AMissIsCountedOnce) {
  auto cache = Open();
  EXPECT_TRUE(absl::IsNotFound(cache->Lookup(instance_).status()));
  ASSERT_TRUE(cache->Get(instance_, Soon()).ok());
  EXPECT_EQ(cache->statistics().tiers.at(0).misses, 1);
}

TEST_F(KernelCacheTest, SaysAtItsStartWhichDirectoriesItCannotRead) {
  TemporaryDirectory open_to_all;
  fs::create_directory(open_to_all.path() + "/entries");
  fs::permissions(open_to_all.path() + "/entries", fs::perms::all);
  std::vector<std::string> warnings;
  const auto create = [&](KernelCache::Options options) {
    warnings.clear();
    options.warn = [&](const std::string& text) { warnings.push_back(text); };
    KernelCache::Create(std::move(options), nullptr);
  };
  create({.directory = directory_.path() + "/new"});
  EXPECT_TRUE(warnings.empty()) << warnings[0];
  create({.layers = {"/nonexistent"}});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(absl::StrContains(warnings[0], "/nonexistent")) << warnings[0];
  create({.directory = open_to_all.path(), .layers = {directory_.path()}});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(absl::StrContains(warnings[0], open_to_all.path()))
      << warnings[0];
  EXPECT_TRUE(absl::IsPermissionDenied(
      KernelCache::CheckReadable({.directory = open_to_all.path()})));
}

// Else the first word of it would come behind the first compile.
TEST_F(KernelCacheTest, SaysAtItsStartThatItsDirectoryCannotBeMade) {
  std::vector<std::string> warnings;
  const auto create = [&](std::unique_ptr<Compiler> compiler) {
    warnings.clear();
    KernelCache::Create(
        {.directory = "/proc/none/cache",
         .warn = [&](const std::string& text) { warnings.push_back(text); }},
        std::move(compiler));
  };
  create(std::make_unique<FakeCompiler>(control_));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(absl::StrContains(
      warnings[0], "cache directory /proc/none/cache: cannot create"))
      << warnings[0];
  // Who makes none has none to store.
  create(nullptr);
  EXPECT_TRUE(warnings.empty()) << warnings[0];
}

TEST_F(KernelCacheTest, ForgetsARejectionAfterItsLifetime) {
  control_->behave = [](const Instance&, absl::Time) {
    return absl::InternalError("nonsense");
  };
  auto cache =
      KernelCache::Create({.rejection_lifetime = absl::Milliseconds(1)},
                          std::make_unique<FakeCompiler>(control_));
  EXPECT_FALSE(cache->Get(instance_, Soon()).ok());
  absl::SleepFor(absl::Milliseconds(5));
  EXPECT_FALSE(cache->Get(instance_, Soon()).ok());
  EXPECT_EQ(control_->compiles, 2);
}

TEST_F(KernelCacheTest, ReadsLayersAndNeverWritesThem) {
  const std::string key = Open()->Get(instance_, Soon())->kernel->key;
  TemporaryDirectory own;
  const auto open = [&] {
    return KernelCache::Create({.directory = own.path(),
                                .layers = {"/nonexistent", directory_.path()}},
                               std::make_unique<FakeCompiler>(control_));
  };
  auto cache = open();
  EXPECT_EQ(cache->Get(instance_, Soon())->source, CubinSource::kDisk);
  EXPECT_EQ(control_->compiles, 1);
  EXPECT_EQ(cache->statistics().tiers[1].hits, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(cache->Evict(key)));
  // Damage in a layer is passed over; the layer stays as it is.
  std::ofstream(EntryFile(key), std::ios::trunc) << "garbage";
  cache = open();
  EXPECT_EQ(cache->Get(instance_, Soon())->source, CubinSource::kCompiled);
  EXPECT_TRUE(fs::exists(EntryFile(key)));
  EXPECT_EQ(open()->Get(instance_, Soon())->source, CubinSource::kDisk);
}

TEST_F(KernelCacheTest, RequiredToBeCompleteItCompilesNothing) {
  ASSERT_TRUE(Open()->Get(instance_, Soon()).ok());
  auto cache = KernelCache::Create(
      {.directory = directory_.path(), .require_complete = true},
      std::make_unique<FakeCompiler>(control_));
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
  EXPECT_TRUE(fs::exists(fs::path(directory_.path()) / "quarantine" / key));
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

// Whatever happens to the disk, a request does not wait for it.
TEST_F(KernelCacheTest, NoRequestWaitsForTheDirectorysLock) {
  fs::create_directories(directory_.path());
  UniqueFd lock(open((directory_.path() + "/lock").c_str(),
                     O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(flock(lock.get(), LOCK_EX), 0);
  auto cache = Open();
  const absl::Time start = absl::Now();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(
        cache->Get({.name = "k", .source = std::to_string(i)}, Soon()).ok());
  }
  // The lock is waited for ten seconds at a time.
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  const fs::path entries = fs::path(directory_.path()) / "entries";
  EXPECT_TRUE(!fs::exists(entries) || fs::is_empty(entries));
  EXPECT_EQ(cache->List("", 10).size(), 5u);
  lock.Reset();
  cache->Flush();
  EXPECT_EQ(cache->statistics().write_errors, 0);
  EXPECT_EQ(Open()->List("", 10).size(), 5u);
}

// Stopped, it holds the locks of what it was making for as long as it likes.
TEST_F(KernelCacheTest, AProcessThatStoppedIsNotWaitedForLong) {
  constexpr absl::Duration kLockTimeout = absl::Seconds(1);
  constexpr int kLocked = 4;
  std::vector<std::string> warnings;
  auto cache = KernelCache::Create(
      {.directory = directory_.path(),
       .compile_jobs = 1,
       .lock_timeout = kLockTimeout,
       .warn = [&](const std::string& text) { warnings.push_back(text); }},
      std::make_unique<FakeCompiler>(control_));
  std::vector<Instance> instances;
  std::vector<KeyLock> locks;
  for (int i = 0; i < kLocked; ++i) {
    instances.push_back({.name = "locked", .source = std::to_string(i)});
    locks.emplace_back(directory_.path(),
                       KeyOf(FakeCompiler(control_), instances.back()));
  }
  instances.push_back({.name = "free", .source = "free"});
  const absl::Time start = absl::Now();
  std::vector<std::future<absl::StatusOr<CacheResult>>> results;
  for (const Instance& instance : instances) {
    results.push_back(std::async(std::launch::async,
                                 [&] { return cache->Get(instance, Soon()); }));
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
  auto cache = KernelCache::Create({.directory = directory_.path(),
                                    .compile_jobs = 1,
                                    .lock_timeout = absl::InfiniteDuration()},
                                   std::make_unique<FakeCompiler>(control_));
  std::vector<Instance> instances;
  std::vector<KeyLock> locks;
  std::vector<std::future<absl::StatusOr<CacheResult>>> results;
  for (int i = 0; i < 4; ++i) {
    instances.push_back({.name = "locked", .source = std::to_string(i)});
    locks.emplace_back(directory_.path(),
                       KeyOf(FakeCompiler(control_), instances.back()));
  }
  for (const Instance& instance : instances) {
    results.push_back(std::async(std::launch::async,
                                 [&] { return cache->Get(instance, Soon()); }));
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

TEST_F(KernelCacheTest, TheEndDoesNotWaitForAnotherProcess) {
  auto cache = KernelCache::Create({.directory = directory_.path(),
                                    .lock_timeout = absl::InfiniteDuration()},
                                   std::make_unique<FakeCompiler>(control_));
  const KeyLock lock(directory_.path(),
                     KeyOf(FakeCompiler(control_), instance_));
  auto result = std::async(std::launch::async,
                           [&] { return cache->Get(instance_, Soon()); });
  EXPECT_TRUE(
      absl::IsAborted(cache->GetUnlessElsewhere(instance_, Soon()).status()));
  cache->GiveUp();
  EXPECT_TRUE(absl::IsUnavailable(result.get().status()));
  EXPECT_EQ(control_->compiles, 0);
}

TEST_F(KernelCacheTest, WhatWaitsToBeWrittenIsServed) {
  UniqueFd lock(open((directory_.path() + "/lock").c_str(),
                     O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(flock(lock.get(), LOCK_EX), 0);
  auto cache =
      KernelCache::Create({.directory = directory_.path(), .memory_bytes = 0},
                          std::make_unique<FakeCompiler>(control_));
  ASSERT_TRUE(cache->Get(instance_, Soon()).ok());
  EXPECT_EQ(cache->Get(instance_, Soon())->source, CubinSource::kDisk);
  EXPECT_EQ(control_->compiles, 1);
  lock.Reset();
}

class EvictionTest : public KernelCacheTest {
 protected:
  // Three entries and the lock file fit.
  std::unique_ptr<KernelCache> OpenSmall() {
    return KernelCache::Create(
        {.directory = directory_.path(), .directory_limit_bytes = 4 * 4096},
        std::make_unique<FakeCompiler>(control_));
  }

  static Instance Make(const std::string& source) {
    return {.name = "k", .source = source};
  }

  void Age(const std::string& key, int hours) {
    fs::last_write_time(EntryFile(key), fs::file_time_type::clock::now() -
                                            std::chrono::hours(hours));
  }
};

// What is served from memory or a device leaves its file untouched otherwise.
TEST_F(EvictionTest, TheHottestEntriesSurvive) {
  auto cache = OpenSmall();
  std::vector<std::string> keys;
  for (const char* source : {"hot", "loaded", "cold"}) {
    keys.push_back(cache->Get(Make(source), Soon())->kernel->key);
  }
  cache->Flush();
  Age(keys[0], 3);
  Age(keys[1], 2);
  Age(keys[2], 1);
  EXPECT_EQ(cache->Get(Make("hot"), Soon())->source, CubinSource::kMemory);
  cache->NoteUse(keys[1]);
  // Its end notes the uses.
  cache.reset();
  cache = OpenSmall();
  ASSERT_TRUE(cache->Get(Make("new"), Soon()).ok());
  cache->Flush();
  EXPECT_TRUE(fs::exists(EntryFile(keys[0])));
  EXPECT_TRUE(fs::exists(EntryFile(keys[1])));
  EXPECT_FALSE(fs::exists(EntryFile(keys[2])));
}

TEST_F(EvictionTest, AMissAndAListMarkNobody) {
  auto cache = OpenSmall();
  const std::string key = cache->Get(Make("one"), Soon())->kernel->key;
  cache.reset();
  Age(key, 5);
  const auto used = fs::last_write_time(EntryFile(key));
  cache = Open(/*with_compiler=*/false);
  EXPECT_FALSE(cache->Get(Make("missing"), Soon()).ok());
  EXPECT_EQ(cache->List("", 10).size(), 1u);
  EXPECT_TRUE(cache->Find(key).ok());
  cache.reset();
  EXPECT_EQ(fs::last_write_time(EntryFile(key)), used);
}

TEST_F(KernelCacheTest, NamesOnlyItsOwnFiles) {
  Open()->Get(instance_, Soon()).status().IgnoreError();
  const fs::perms mode =
      fs::status(fs::path(directory_.path()) / "entries").permissions();
  EXPECT_EQ(mode, fs::perms::owner_all);
  EXPECT_TRUE(fs::is_empty(fs::path(directory_.path()) / "temporary"));
}

}  // namespace
}  // namespace gemmd::jit
