// A kernel cache and its directories: damage, loss, layers, writes that wait,
// and which entries leave first.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "jit/base/file.h"
#include "jit/cache/disk_store.h"
#include "tests/jit/cache/kernel_cache_fixture.h"

namespace gemmd::jit {
namespace {

namespace fs = std::filesystem;

// Of a directory, which a cache waits for before it writes.
UniqueFd Lock(const std::string& directory) {
  UniqueFd lock(
      open((directory + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_EQ(flock(lock.get(), LOCK_EX), 0);
  return lock;
}

TEST_F(KernelCacheTest, NamesOnlyItsOwnFiles) {
  Open()->Get(instance_, Soon()).status().IgnoreError();
  const fs::perms mode = fs::status(In("entries")).permissions();
  EXPECT_EQ(mode, fs::perms::owner_all);
  EXPECT_TRUE(fs::is_empty(In("temporary")));
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
    EXPECT_TRUE(fs::exists(In("quarantine") / key));
    EXPECT_TRUE(absl::StrContains(warnings_, key)) << warnings_;
    EXPECT_EQ(Open()->Get(instance_, Soon())->source, CubinSource::kDisk);
  }
}

TEST_F(KernelCacheTest, WorksWhenTheDirectoryCannotBeWritten) {
  // A file in place of the folder stops even root.
  std::ofstream(In("entries")) << "in the way";
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
  EXPECT_TRUE(absl::IsInternal(
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

TEST_F(KernelCacheTest, ReadsLayersAndNeverWritesThem) {
  const std::string key = Open()->Get(instance_, Soon())->kernel->key;
  TemporaryDirectory own;
  const auto open = [&] {
    return Create({.directory = own.path(),
                   .layers = {"/nonexistent", directory_.path()}});
  };
  auto cache = open();
  EXPECT_EQ(cache->Get(instance_, Soon())->source, CubinSource::kDisk);
  EXPECT_EQ(control_->compiles, 1);
  const std::vector<TierStatistics> tiers = cache->statistics().tiers;
  ASSERT_EQ(tiers.size(), 3u);
  EXPECT_EQ(tiers[0].name, "layer 0");
  EXPECT_EQ(tiers[1].name, "layer 1");
  EXPECT_EQ(tiers[2].name, "disk");
  EXPECT_EQ(tiers[1].hits, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(cache->Evict(key)));
  // Damage in a layer is passed over; the layer stays as it is.
  std::ofstream(EntryFile(key), std::ios::trunc) << "garbage";
  cache = open();
  EXPECT_EQ(cache->Get(instance_, Soon())->source, CubinSource::kCompiled);
  EXPECT_TRUE(fs::exists(EntryFile(key)));
  EXPECT_EQ(open()->Get(instance_, Soon())->source, CubinSource::kDisk);
}

// Whatever happens to the disk, a request does not wait for it.
TEST_F(KernelCacheTest, NoRequestWaitsForTheDirectorysLock) {
  fs::create_directories(directory_.path());
  UniqueFd lock = Lock(directory_.path());
  auto cache = Open();
  const absl::Time start = absl::Now();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(
        cache->Get({.name = "k", .source = std::to_string(i)}, Soon()).ok());
  }
  // The lock is waited for ten seconds at a time.
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  const fs::path entries = In("entries");
  EXPECT_TRUE(!fs::exists(entries) || fs::is_empty(entries));
  EXPECT_EQ(cache->List("", 10).size(), 5u);
  lock.Reset();
  cache->Flush();
  EXPECT_EQ(cache->statistics().write_errors, 0);
  EXPECT_EQ(Open()->List("", 10).size(), 5u);
}

TEST_F(KernelCacheTest, WhatWaitsToBeWrittenIsServed) {
  UniqueFd lock = Lock(directory_.path());
  auto cache = Create({.directory = directory_.path(), .memory_bytes = 0});
  ASSERT_TRUE(cache->Get(instance_, Soon()).ok());
  EXPECT_EQ(cache->Get(instance_, Soon())->source, CubinSource::kDisk);
  EXPECT_EQ(control_->compiles, 1);
  lock.Reset();
}

class EvictionTest : public KernelCacheTest {
 protected:
  // Three entries and the lock file fit.
  std::unique_ptr<KernelCache> OpenSmall() {
    return Create(
        {.directory = directory_.path(), .directory_limit_bytes = 4 * 4096});
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

// As of a directory that gemm-warmup filled, or of another limit's time.
TEST_F(EvictionTest, WhatTheLimitTakesAwayAtTheStartIsTold) {
  DiskStore store({.directory = directory_.path()});
  for (const char* source : {"1", "2", "3", "4", "5"}) {
    ASSERT_TRUE(store.Store(FakeKernel(source)).ok());
  }
  std::string warnings;
  const auto start = [&] {
    warnings.clear();
    Create({.directory = directory_.path(),
            .directory_limit_bytes = 4 * 4096,
            .warn = [&](const std::string& text) { warnings += text; }});
  };
  start();
  EXPECT_EQ(store.Keys().size(), 3u);
  EXPECT_EQ(warnings,
            "cache directory " + directory_.path() +
                ": it held 24576 bytes, more than its limit of 16384: 2 "
                "kernels, the least recently used, were removed");
  start();
  EXPECT_EQ(warnings, "");
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

}  // namespace
}  // namespace gemmd::jit
