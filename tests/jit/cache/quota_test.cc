// What a directory may hold, and which of its files leave.
#include "jit/cache/quota.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "jit/cache/disk_store.h"
#include "jit/cache/ledger.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBlock = 4096;

class QuotaTest : public testing::Test {
 protected:
  fs::path Path(const std::string& name) const {
    return fs::path(directory_.path()) / name;
  }
  // Stores kernels that take a block each.
  void Store(int first, int last, std::optional<int64_t> limit_bytes = {}) {
    DiskStore store(
        {.directory = directory_.path(), .limit_bytes = limit_bytes});
    for (int i = first; i < last; ++i) {
      const absl::Status status = store.Store(FakeKernel(std::to_string(i)));
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  // A file of a block in a folder of the cache.
  void Put(const std::string& folder) {
    fs::create_directory(Path(folder));
    fs::permissions(Path(folder), fs::perms::owner_all);
    std::ofstream(Path(folder) / "file") << "x";
  }
  absl::StatusOr<Collection> Collect(std::optional<int64_t> limit_bytes = {}) {
    return CollectGarbage({.directory = directory_.path()}, limit_bytes);
  }
  int64_t Used() const {
    return BytesUsed(directory_.path(), FolderAccess::kOwn);
  }
  size_t Count() const {
    return DiskStore({.directory = directory_.path()}).Keys().size();
  }

  const TemporaryDirectory directory_;
};

TEST_F(QuotaTest, ALimitOfZeroIsNone) {
  Store(0, 3, 0);
  EXPECT_EQ(Count(), 3u);
  for (const std::optional<int64_t> limit :
       {std::optional<int64_t>(), std::optional<int64_t>(0)}) {
    const absl::StatusOr<Collection> done = Collect(limit);
    ASSERT_TRUE(done.ok()) << done.status();
    EXPECT_EQ(done->entries_removed, 0);
    EXPECT_EQ(Count(), 3u);
  }
  EXPECT_EQ(*LimitBytes({.directory = directory_.path()}), 0);
}

// However often it is asked for: what nobody gave is not written as a limit.
TEST_F(QuotaTest, ALimitThatNobodyGaveIsTheDefault) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(*LimitBytes({.directory = directory_.path()}),
              kDefaultLimitBytes);
    Store(i, i + 1);
  }
}

// Else each store would look at all files.
TEST_F(QuotaTest, TheNextWriterMayBelieveTheLedger) {
  Store(0, 2, 100 * kBlock);
  ASSERT_TRUE(Collect().ok());
  Store(2, 4);
  const UniqueFd lock(open(Path("lock").c_str(), O_RDONLY | O_CLOEXEC));
  const Ledger ledger = ReadLedger(lock.get());
  EXPECT_EQ(ledger.limit_bytes, 100 * kBlock);
  EXPECT_EQ(ledger.used_bytes, Used());
  struct stat facts;
  ASSERT_EQ(stat(Path("entries").c_str(), &facts), 0);
  EXPECT_EQ(ledger.changed_ns,
            absl::ToUnixNanos(absl::TimeFromTimespec(facts.st_mtim)));
}

TEST_F(QuotaTest, AllFilesCount) {
  Store(0, 1);
  int64_t used = Used();
  EXPECT_EQ(used, 2 * kBlock);  // The lock's, too.
  for (const char* folder : {"temporary", "quarantine", "tuning", "identity"}) {
    Put(folder);
    EXPECT_EQ(Used(), used += kBlock) << folder;
  }
  // An eighth is for tuning records, of which there is one.
  const std::string& path = directory_.path();
  EXPECT_EQ(LeastLimitBytes(path, 100 * kBlock, kBlock), used + 101 * kBlock);
  EXPECT_EQ(LeastLimitBytes(path, 0, 2 * kBlock), 8 * 3 * kBlock);
}

TEST_F(QuotaTest, WhatIsKeptAsideLeavesFirst) {
  Store(0, 3);
  Put("quarantine");
  const absl::StatusOr<Collection> done = Collect(Used() - kBlock);
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(done->bytes_before, 5 * kBlock);
  EXPECT_EQ(done->entries_removed, 0);
  EXPECT_EQ(Count(), 3u);
  EXPECT_TRUE(fs::is_empty(Path("quarantine")));
}

// Some leave besides, so that the next write does not look at all files again.
TEST_F(QuotaTest, AnEvictionMakesRoomForMoreThanOne) {
  Store(0, 128);
  const absl::StatusOr<Collection> done = Collect(Used() - kBlock);
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(done->entries_removed, 1 + 128 / 64);
}

}  // namespace
}  // namespace gemmd::jit
