// The shared tier as the cache above it uses it: a real Redis, and one that is
// slow.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "jit/cache/build_kernel.h"
#include "jit/cache/disk_store.h"
#include "jit/cache/redis_tier.h"
#include "tests/jit/cache/redis_server.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {
namespace {

absl::Time Soon() { return absl::Now() + absl::Seconds(30); }

// Entries are signed with one key.
std::shared_ptr<Tier> Open(const RedisServerProcess& server) {
  return CreateRedisTier({.server = {.address = server.address()},
                          .signing_key = "key",
                          .load_timeout = absl::Milliseconds(300)})
      .value();
}

TEST(SharedTierTest, ServesAnotherMachineAndIsFilledBehindACompile) {
  const RedisServerProcess server;
  const Instance instance = {.name = "one", .source = "one"};
  const auto control = std::make_shared<FakeCompiler::Control>();
  const auto open = [&](const std::string& directory) {
    return KernelCache::Create({.directory = directory, .shared = Open(server)},
                               std::make_unique<FakeCompiler>(control));
  };
  const TemporaryDirectory one, other;
  auto first = open(one.path());
  ASSERT_EQ(first->Get(instance, Soon())->source, CubinSource::kCompiled);
  const absl::Time end = Soon();
  while (first->statistics().tiers[1].bytes_stored == 0) {
    ASSERT_LT(absl::Now(), end);
    absl::SleepFor(absl::Milliseconds(5));
  }
  auto second = open(other.path());
  EXPECT_EQ(second->Get(instance, Soon())->source, CubinSource::kDisk);
  EXPECT_EQ(second->statistics().tiers[1].hits, 1);
  EXPECT_EQ(control->compiles, 1);
  // It lies on the other machine's disk now.
  second->Flush();
  EXPECT_EQ(second->statistics().tiers[0].bytes_stored,
            static_cast<int64_t>(FakeCubin().size()));
}

// A machine without a compiler does not know the key.
TEST(SharedTierTest, ServesWhoHasNoCompilerOrMayNotCompile) {
  const RedisServerProcess server;
  const Instance instance = {.name = "one", .source = "one"};
  const auto control = std::make_shared<FakeCompiler::Control>();
  CompiledKernel kernel = FakeKernel("one");
  ASSERT_TRUE(Open(server)->Store(kernel).ok());
  const auto open = [&](bool with_compiler, const std::string& directory) {
    return KernelCache::Create(
        {.directory = directory,
         .shared = Open(server),
         .require_complete = true},
        with_compiler ? std::make_unique<FakeCompiler>(control) : nullptr);
  };
  for (const bool with_compiler : {false, true}) {
    const TemporaryDirectory directory;
    for (const std::string& path : {directory.path(), std::string()}) {
      auto cache = open(with_compiler, path);
      const auto result = cache->Get(instance, Soon());
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->source, CubinSource::kDisk);
      EXPECT_EQ(cache->Get(instance, Soon())->source, CubinSource::kMemory);
      EXPECT_TRUE(absl::IsFailedPrecondition(
          cache->Get({.name = "two", .source = "two"}, Soon()).status()));
    }
  }
  EXPECT_EQ(control->compiles, 0);
}

TEST(SharedTierTest, WhatIsEvictedIsCompiledAgain) {
  RedisServerProcess server;
  const Instance instance = {.name = "one", .source = "one"};
  const auto control = std::make_shared<FakeCompiler::Control>();
  auto cache = KernelCache::Create({.shared = Open(server)},
                                   std::make_unique<FakeCompiler>(control));
  const std::string key = cache->Get(instance, Soon())->kernel->key;
  // Though it may wait to be stored still.
  EXPECT_TRUE(cache->Evict(key).ok());
  EXPECT_EQ(cache->Get(instance, Soon())->source, CubinSource::kCompiled);

  // Nothing is said to be gone that may come back.
  server.Kill();
  const absl::Status status = cache->Evict(key);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(cache->Find(key).ok());
}

// Stores when it is told to, and counts what it is to forget. Has nothing.
class SlowTier final : public Tier {
 public:
  absl::StatusOr<CompiledKernel> Load(const std::string& key) override {
    return trouble.ok() ? absl::NotFoundError(key) : trouble;
  }
  absl::Status Store(const CompiledKernel&) override {
    store.WaitForNotification();
    ++stores;
    return trouble;
  }
  absl::Status Remove(const std::string&) override {
    ++removals;
    return absl::OkStatus();
  }

  absl::Status trouble;  // Of loads and stores; may be OK.
  absl::Notification store;
  std::atomic<int> stores = 0;
  std::atomic<int> removals = 0;
};

TEST(SharedTierTest, KernelsThatWaitForASlowServerAreBounded) {
  const auto tier = std::make_shared<SlowTier>();
  std::atomic<int> warnings = 0;
  const auto cache = KernelCache::Create(
      {.shared = tier,
       .warn =
           [&](const std::string& text) {
             EXPECT_TRUE(absl::StrContains(text, "1024 others wait")) << text;
             ++warnings;
           }},
      std::make_unique<FakeCompiler>(
          std::make_shared<FakeCompiler::Control>()));
  const auto make = [&](int i) {
    const std::string source = absl::StrCat("source ", i);
    EXPECT_TRUE(cache->Get({.name = "one", .source = source}, Soon()).ok());
  };
  const auto are_stored = [&](int count) {
    const absl::Time end = Soon();
    while (tier->stores < count && absl::Now() < end) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    return tier->stores == count;
  };
  for (int i = 0; i < 1100; ++i) make(i);
  EXPECT_EQ(warnings, 1100 - 1024);
  tier->store.Notify();
  EXPECT_TRUE(are_stored(1024));
  // There is room again.
  make(1100);
  EXPECT_TRUE(are_stored(1025));
}

TEST(SharedTierTest, AnEvictionDoesNotWaitForAllThatIsStored) {
  const auto tier = std::make_shared<SlowTier>();
  auto cache = KernelCache::Create(
      {.shared = tier}, std::make_unique<FakeCompiler>(
                            std::make_shared<FakeCompiler::Control>()));
  const std::string key =
      cache->Get({.name = "one", .source = "one"}, Soon())->kernel->key;
  const absl::Status status = cache->Evict(key);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(cache->Find(key).ok());
  tier->store.Notify();
  EXPECT_TRUE(cache->Evict(key).ok());
  // That of the first came late.
  EXPECT_EQ(tier->removals, 2);
}

// Where a machine without a compiler would find it.
TEST(SharedTierTest, WhatADeviceRefusedIsSharedNoLonger) {
  const auto tier = std::make_shared<SlowTier>();
  tier->store.Notify();
  auto cache = KernelCache::Create(
      {.shared = tier}, std::make_unique<FakeCompiler>(
                            std::make_shared<FakeCompiler::Control>()));
  cache->Quarantine(
      cache->Get({.name = "one", .source = "one"}, Soon())->kernel->key);
  for (const absl::Time end = Soon(); tier->removals == 0 && absl::Now() < end;
       absl::SleepFor(absl::Milliseconds(1))) {
  }
  EXPECT_EQ(tier->removals, 1);
}

TEST(SharedTierTest, TroubleOfALoadAndOfAStoreAreTold) {
  const auto tier = std::make_shared<SlowTier>();
  tier->trouble = absl::UnavailableError("nobody there");
  std::string warnings;
  auto cache = KernelCache::Create(
      {.shared = tier,
       .warn = [&](const std::string& text) { warnings += text; }},
      std::make_unique<FakeCompiler>(
          std::make_shared<FakeCompiler::Control>()));
  const auto result = cache->Get({.name = "one", .source = "one"}, Soon());
  ASSERT_TRUE(result.ok()) << result.status();
  const std::string told = absl::StrCat("cache tier shared, entry ",
                                        result->kernel->key, ": nobody there");
  EXPECT_EQ(warnings, told);
  tier->store.Notify();
  cache->Evict(result->kernel->key).IgnoreError();  // Comes behind the store.
  EXPECT_EQ(warnings, told + told);
}

TEST(SharedTierTest, WhatLiesInALayerStaysShared) {
  const TemporaryDirectory layer;
  const CompiledKernel kernel = FakeKernel("one");
  ASSERT_TRUE(DiskStore({.directory = layer.path()}).Store(kernel).ok());
  const auto tier = std::make_shared<SlowTier>();
  const auto cache =
      KernelCache::Create({.layers = {layer.path()}, .shared = tier}, nullptr);
  EXPECT_TRUE(absl::IsFailedPrecondition(cache->Evict(kernel.key)));
  EXPECT_EQ(tier->removals, 0);
}

// The device refused the cubin, whoever brings it.
TEST(SharedTierTest, WhatADeviceRefusedIsTakenFromNoTierAgain) {
  const RedisServerProcess server;
  const TemporaryDirectory layer, own;
  const Instance instance = {.name = "one", .source = "one"};
  const auto control = std::make_shared<FakeCompiler::Control>();
  const std::string key = KeyOf(FakeCompiler(control), instance);
  CompiledKernel bad = FakeKernel("one");
  bad.options.clear();
  bad.key = key;
  bad.cubin += "which no device loads";
  ASSERT_TRUE(DiskStore({.directory = layer.path()}).Store(bad).ok());
  ASSERT_TRUE(Open(server)->Store(bad).ok());
  auto cache = KernelCache::Create({.directory = own.path(),
                                    .layers = {layer.path()},
                                    .shared = Open(server)},
                                   std::make_unique<FakeCompiler>(control));
  EXPECT_EQ(cache->Get(instance, Soon())->kernel->cubin, bad.cubin);
  cache->Quarantine(key);
  const auto good = cache->Get(instance, Soon());
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(good->source, CubinSource::kCompiled);
  EXPECT_EQ(good->kernel->cubin, FakeCubin());
  cache->Flush();
  // Were what the compiler makes refused too, another compile would not help.
  cache->Quarantine(key);
  EXPECT_EQ(cache->Get(instance, Soon()).status().code(),
            absl::StatusCode::kInternal);
  EXPECT_FALSE(cache->Get(instance, Soon()).ok());
  EXPECT_EQ(control->compiles, 2);
}

}  // namespace
}  // namespace gemmd::jit
