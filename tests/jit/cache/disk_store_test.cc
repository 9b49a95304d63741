// What may go wrong on a disk, and what must hold all the same.
#include "jit/cache/disk_store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "jit/cache/entry.h"
#include "jit/cache/key_lock.h"
#include "tests/jit/fake_compiler.h"
#include "tests/settable_clock.h"

namespace gemmd::jit {
namespace {

namespace fs = std::filesystem;

constexpr PublishStep kSteps[] = {
    PublishStep::kBeforeWrite, PublishStep::kHalfWritten,
    PublishStep::kBeforeSync, PublishStep::kBeforeRename,
    PublishStep::kAfterRename};

class DiskStoreTest : public testing::Test {
 protected:
  DiskStore Open(std::function<absl::Status(PublishStep)> at_step = nullptr) {
    return DiskStore({.directory = directory_.path(), .at_step = at_step});
  }

  fs::path Path(const std::string& name) const {
    return fs::path(directory_.path()) / name;
  }

  // A later writer and reader are unaffected by what happened before.
  void ExpectUnaffected() {
    DiskStore store = Open();
    EXPECT_TRUE(store.Store(kernel_).ok());
    const absl::StatusOr<CompiledKernel> read = store.Load(kernel_.key);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->cubin, kernel_.cubin);
    EXPECT_TRUE(fs::is_empty(Path("temporary")));
  }

  TemporaryDirectory directory_;
  const CompiledKernel kernel_ = FakeKernel("source");
};

TEST_F(DiskStoreTest, ReturnsWhatWasStored) {
  EXPECT_TRUE(absl::IsNotFound(Open().Load(kernel_.key).status()));
  ExpectUnaffected();
}

TEST_F(DiskStoreTest, AKillAtAnyStepLeavesAllOrNothing) {
  for (const PublishStep step : kSteps) {
    fs::remove_all(directory_.path());
    const pid_t child = fork();
    if (child == 0) {
      Open([step](PublishStep at) {
        if (at == step) kill(getpid(), SIGKILL);
        return absl::OkStatus();
      })
          .Store(kernel_)
          .IgnoreError();
      _exit(1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << static_cast<int>(step);
    const absl::Status read = Open().Load(kernel_.key).status();
    EXPECT_EQ(read.code(), step == PublishStep::kAfterRename
                               ? absl::StatusCode::kOk
                               : absl::StatusCode::kNotFound)
        << static_cast<int>(step);
    ExpectUnaffected();
  }
}

TEST_F(DiskStoreTest, AnErrorAtAnyStepIsReportedAndLeavesNothingHalf) {
  for (const int error : {ENOSPC, EROFS, EIO}) {
    for (const PublishStep step : kSteps) {
      fs::remove_all(directory_.path());
      const absl::Status status =
          Open([&](PublishStep at) {
            return at == step ? ErrnoStatus(error, "write") : absl::OkStatus();
          }).Store(kernel_);
      EXPECT_FALSE(status.ok());
      const absl::Status read = Open().Load(kernel_.key).status();
      EXPECT_TRUE(read.ok() || absl::IsNotFound(read)) << read;
      EXPECT_TRUE(fs::is_empty(Path("temporary")));
      ExpectUnaffected();
    }
  }
}

TEST_F(DiskStoreTest, AFlippedBitAnywhereIsQuarantined) {
  const std::string bytes = EncodeEntry(kernel_);
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    ExpectUnaffected();
    std::string damaged = bytes;
    const size_t at = random() % damaged.size();
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 8));
    std::ofstream(Path("entries/" + kernel_.key), std::ios::trunc) << damaged;
    DiskStore store = Open();
    EXPECT_TRUE(absl::IsDataLoss(store.Load(kernel_.key).status())) << at;
    EXPECT_TRUE(absl::IsNotFound(store.Load(kernel_.key).status())) << at;
    EXPECT_TRUE(fs::exists(Path("quarantine/" + kernel_.key)));
  }
}

TEST_F(DiskStoreTest, ATruncatedEntryIsQuarantined) {
  const std::string bytes = EncodeEntry(kernel_);
  for (const size_t length : {size_t{0}, size_t{1}, bytes.size() - 1}) {
    ExpectUnaffected();
    fs::resize_file(Path("entries/" + kernel_.key), length);
    EXPECT_TRUE(absl::IsDataLoss(Open().Load(kernel_.key).status()));
  }
  ExpectUnaffected();
}

TEST_F(DiskStoreTest, AnEntryOfAnotherKeyIsQuarantined) {
  ExpectUnaffected();
  const CompiledKernel other = FakeKernel("other");
  fs::rename(Path("entries/" + kernel_.key), Path("entries/" + other.key));
  EXPECT_TRUE(absl::IsDataLoss(Open().Load(other.key).status()));
  EXPECT_TRUE(absl::IsNotFound(Open().Load(other.key).status()));
}

TEST_F(DiskStoreTest, ACubinThatContradictsItsEntryIsQuarantined) {
  CompiledKernel kernel = kernel_;
  for (const std::string& cubin :
       {FakeCubin(43), FakeCubin(42, 80), FakeCubin(42, 90, "other"),
        std::string("not a cubin")}) {
    kernel.cubin = cubin;
    ASSERT_TRUE(Open().Store(kernel).ok());
    EXPECT_TRUE(absl::IsDataLoss(Open().Load(kernel.key).status()));
  }
}

TEST_F(DiskStoreTest, QuarantineIsBounded) {
  for (int i = 0; i < 40; ++i) {
    const CompiledKernel kernel = FakeKernel(std::to_string(i));
    ASSERT_TRUE(Open().Store(kernel).ok());
    ASSERT_TRUE(Open().Quarantine(kernel.key).ok());
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(Path("quarantine")), {}), 16);
}

TEST_F(DiskStoreTest, DoesNotFollowLinks) {
  ExpectUnaffected();
  const fs::path entry = Path("entries/" + kernel_.key);
  fs::rename(entry, Path("elsewhere"));
  fs::create_symlink(Path("elsewhere"), entry);
  EXPECT_TRUE(absl::IsDataLoss(Open().Load(kernel_.key).status()));
  EXPECT_TRUE(fs::exists(Path("elsewhere")));
  ExpectUnaffected();

  fs::rename(Path("entries"), Path("other_entries"));
  fs::create_directory_symlink(Path("other_entries"), Path("entries"));
  EXPECT_FALSE(Open().Load(kernel_.key).ok());
  EXPECT_FALSE(Open().Store(kernel_).ok());
}

TEST_F(DiskStoreTest, RefusesAFolderThatOthersCanWrite) {
  ExpectUnaffected();
  chmod(Path("entries").c_str(), 0777);
  EXPECT_TRUE(absl::IsInternal(Open().Load(kernel_.key).status()));
  EXPECT_TRUE(absl::IsInternal(Open().Store(kernel_)));
  chmod(Path("entries").c_str(), 0700);
  ExpectUnaffected();
}

// Links do not need to be symbolic.
TEST_F(DiskStoreTest, WritesIntoNoFileThatLiesElsewhereToo) {
  ExpectUnaffected();
  const std::string precious(4096, 'p');
  for (const char* name : {"lock", "compiling"}) {
    std::ofstream(Path("precious")) << precious;
    fs::remove(Path(name));
    fs::create_hard_link(Path("precious"), Path(name));
    EXPECT_EQ(Open().Store(FakeKernel(name)).code(),
              name == std::string("lock") ? absl::StatusCode::kInternal
                                          : absl::StatusCode::kOk);
    const KeyLock lock(directory_.path(), kernel_.key);
    std::ifstream file(Path("precious"));
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), precious)
        << name;
    fs::remove(Path(name));
  }
  ExpectUnaffected();
}

// Where everybody may write, anybody may have made the folder.
TEST_F(DiskStoreTest, ALayerIsNotReadWhereAnybodyMayHavePutIt) {
  if (geteuid() != 0) GTEST_SKIP() << "needs the right to give files away";
  ExpectUnaffected();
  DiskStore layer({.directory = directory_.path(), .read_only = true});
  constexpr uid_t kSomebody = 65533;
  ASSERT_EQ(chown(Path("entries").c_str(), kSomebody, kSomebody), 0);
  EXPECT_TRUE(layer.Load(kernel_.key).ok());
  fs::permissions(directory_.path(), fs::perms::all);
  EXPECT_TRUE(absl::IsInternal(layer.Load(kernel_.key).status()));
  // His own directory is his.
  ASSERT_EQ(chown(directory_.path().c_str(), kSomebody, kSomebody), 0);
  EXPECT_TRUE(layer.Load(kernel_.key).ok());
}

TEST_F(DiskStoreTest, AFifoInPlaceOfAnEntryDoesNotHangAReader) {
  ExpectUnaffected();
  fs::remove(Path("entries/" + kernel_.key));
  ASSERT_EQ(mkfifo(Path("entries/" + kernel_.key).c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsDataLoss(Open().Load(kernel_.key).status()));
  ExpectUnaffected();
}

TEST_F(DiskStoreTest, SweepsWhatACrashLeft) {
  ExpectUnaffected();
  std::ofstream(Path("temporary/left")) << "half an entry";
  ExpectUnaffected();
}

TEST_F(DiskStoreTest, AReadOnlyStoreChangesNothing) {
  ExpectUnaffected();
  std::ofstream(Path("entries/" + kernel_.key), std::ios::trunc) << "garbage";
  DiskStore layer({.directory = directory_.path(), .read_only = true});
  EXPECT_TRUE(absl::IsDataLoss(layer.Load(kernel_.key).status()));
  EXPECT_TRUE(fs::exists(Path("entries/" + kernel_.key)));
  EXPECT_TRUE(absl::IsPermissionDenied(layer.Store(kernel_)));
  EXPECT_TRUE(absl::IsPermissionDenied(layer.Remove(kernel_.key)));
}

TEST_F(DiskStoreTest, EvictsTheLeastRecentlyUsed) {
  std::vector<CompiledKernel> kernels;
  for (int i = 0; i < 5; ++i) kernels.push_back(FakeKernel(std::to_string(i)));
  // Each entry takes one block of 4096 bytes, and so does the lock file.
  DiskStore store({.directory = directory_.path(), .limit_bytes = 5 * 4096});
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(store.Store(kernels[i]).ok());
    absl::SleepFor(absl::Milliseconds(10));
  }
  ASSERT_TRUE(store.Load(kernels[0].key).ok());
  ASSERT_TRUE(store.Store(kernels[4]).ok());
  EXPECT_TRUE(store.Load(kernels[0].key).ok());
  EXPECT_TRUE(absl::IsNotFound(store.Load(kernels[1].key).status()));
  EXPECT_EQ(store.BytesUsed(), 5 * 4096);
  const absl::StatusOr<Collection> done = store.Collect(2 * 4096);
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(done->bytes_before, 5 * 4096);
  EXPECT_EQ(done->entries_removed, 3);
  EXPECT_EQ(store.Keys().size(), 1u);
}

TEST_F(DiskStoreTest, RefusesAnEntryLargerThanItsLimit) {
  DiskStore store({.directory = directory_.path(), .limit_bytes = 2 * 4096});
  ASSERT_TRUE(store.Store(kernel_).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(
      store.Store(FakeKernel(std::string(10000, 'x')))));
  EXPECT_TRUE(store.Load(kernel_.key).ok());
}

// Entries from a time when the clock was ahead, which nobody has used since, do
// not take the place of those in use.
TEST_F(DiskStoreTest, WorksWhenTheClockWasSetBack) {
  constexpr int64_t kLimit = 4 * 4096;  // Of it the lock takes one.
  DiskStore store({.directory = directory_.path(), .limit_bytes = kLimit});
  for (const char* name : {"dead", "dead too"}) {
    const CompiledKernel kernel = FakeKernel(name);
    ASSERT_TRUE(store.Store(kernel).ok());
    fs::last_write_time(
        Path("entries/" + kernel.key),
        fs::file_time_type::clock::now() + std::chrono::hours(24 * 365));
  }
  for (const char* name : {"1", "2", "3"}) {
    ASSERT_TRUE(store.Store(FakeKernel(name)).ok());
  }
  for (const char* name : {"1", "2", "3"}) {
    EXPECT_TRUE(store.Load(FakeKernel(name).key).ok()) << name;
  }
  EXPECT_LE(store.BytesUsed(), kLimit);
}

// Whose time the files have: all of it is yet to come here.
TEST_F(DiskStoreTest, WorksWhenTheFileServersClockIsAhead) {
  const absl::Cleanup reset = [] { clock_step_s = 0; };
  const absl::Time before = absl::Now();
  clock_step_s = -2 * 3600;
  // Abseil's clock notices it only after up to some seconds.
  while (absl::Now() > before - absl::Hours(1)) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  DiskStore store({.directory = directory_.path(), .limit_bytes = 4 * 4096});
  const CompiledKernel old = FakeKernel("old");
  ASSERT_TRUE(store.Store(old).ok());
  fs::last_write_time(
      Path("entries/" + old.key),
      fs::last_write_time(Path("entries/" + old.key)) - std::chrono::hours(24));
  for (const char* name : {"1", "2", "3"}) {
    ASSERT_TRUE(store.Store(FakeKernel(name)).ok());
  }
  EXPECT_TRUE(absl::IsNotFound(store.Load(old.key).status()));
  for (const char* name : {"1", "2", "3"}) {
    EXPECT_TRUE(store.Load(FakeKernel(name).key).ok()) << name;
  }
}

TEST_F(DiskStoreTest, ASummaryIsReadWithoutUsingTheEntry) {
  DiskStore store = Open();
  ASSERT_TRUE(store.Store(kernel_).ok());
  const fs::path file = Path("entries/" + kernel_.key);
  const auto used = fs::file_time_type::clock::now() - std::chrono::hours(1);
  fs::last_write_time(file, used);
  const absl::StatusOr<EntrySummary> summary = store.Summary(kernel_.key);
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->name, kernel_.name);
  EXPECT_EQ(summary->cubin_bytes, static_cast<int64_t>(kernel_.cubin.size()));
  EXPECT_TRUE(store.Peek(kernel_.key).ok());
  EXPECT_EQ(fs::last_write_time(file), used);
  store.MarkUsed({kernel_.key, std::string(64, '0')});
  EXPECT_GT(fs::last_write_time(file), used);
}

TEST_F(DiskStoreTest, SummariesOfManySayWhatCannotBeRead) {
  DiskStore store = Open();
  std::vector<std::string> keys = {std::string(64, '0')};  // Not there.
  for (int i = 0; i < 100; ++i) {
    const CompiledKernel kernel = FakeKernel(std::to_string(i));
    ASSERT_TRUE(store.Store(kernel).ok());
    keys.push_back(kernel.key);
  }
  fs::resize_file(Path("entries/" + keys[7]), 20);
  fs::rename(Path("entries/" + keys[8]), Path("entries/" + keys[9]));
  std::vector<std::string> read;
  store.Summaries(keys, [&](size_t i, const absl::StatusOr<EntrySummary>& one) {
    EXPECT_EQ(absl::IsNotFound(one.status()), i == 0 || i == 8) << i;
    EXPECT_EQ(absl::IsDataLoss(one.status()), i == 7 || i == 9) << i;
    if (one.ok()) read.push_back(one->key);
  });
  keys.erase(keys.begin() + 7, keys.begin() + 10);
  keys.erase(keys.begin());
  EXPECT_EQ(read, keys);
}

// A writer that does not know the limit keeps to that of the directory.
TEST_F(DiskStoreTest, TheDirectoryRemembersItsLimit) {
  ASSERT_TRUE(
      DiskStore({.directory = directory_.path(), .limit_bytes = 4 * 4096})
          .Store(kernel_)
          .ok());
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(Open().Store(FakeKernel(std::to_string(i))).ok());
  }
  EXPECT_LE(Open().BytesUsed(), 4 * 4096);
  EXPECT_TRUE(Open().Load(FakeKernel("7").key).ok());
}

// Another process's changes, and a lost ledger, are noticed.
TEST_F(DiskStoreTest, TheLedgerIsNotBelievedBlindly) {
  DiskStore store({.directory = directory_.path(), .limit_bytes = 6 * 4096});
  ASSERT_TRUE(store.Store(kernel_).ok());
  for (int i = 0; i < 10; ++i) {
    const CompiledKernel kernel = FakeKernel(std::to_string(i));
    std::ofstream(Path("entries/" + kernel.key)) << EncodeEntry(kernel);
  }
  ASSERT_TRUE(store.Store(FakeKernel("more")).ok());
  EXPECT_LE(store.BytesUsed(), 6 * 4096);
  std::ofstream(Path("lock"), std::ios::trunc) << "garbage of 4 words";
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(store.Store(FakeKernel(std::to_string(i))).ok());
    EXPECT_LE(store.BytesUsed(), 6 * 4096);
  }
}

// Else nothing would stay in a cache beside a file that is larger than its
// limit, such as what dumped its core there.
TEST_F(DiskStoreTest, FilesOfOthersTakeNoRoomOfItsLimit) {
  std::ofstream(Path("core"));
  fs::resize_file(Path("core"), 1 << 20);
  DiskStore store({.directory = directory_.path(), .limit_bytes = 8 * 4096});
  for (const char* source : {"1", "2"}) {
    ASSERT_TRUE(store.Store(FakeKernel(source)).ok());
  }
  ASSERT_TRUE(store.Collect().ok());
  EXPECT_EQ(store.Keys().size(), 2u);
  EXPECT_LE(store.BytesUsed(), 8 * 4096);
  EXPECT_EQ(fs::file_size(Path("core")), 1u << 20);
}

int64_t BytesBelow(const fs::path& directory) {
  int64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    struct stat facts;
    if (lstat(entry.path().c_str(), &facts) == 0 && S_ISREG(facts.st_mode)) {
      bytes += std::max<int64_t>(facts.st_blocks * 512, facts.st_size);
    }
  }
  return bytes;
}

TEST(DiskStoreBoundTest, HoldsItsLimitUnderARandomLoad) {
  constexpr int64_t kLimit = 20'000'000;
  constexpr int kKeys = 10000;
  // In memory where there is such a place: a disk would flush 20,000 times.
  const TemporaryDirectory directory(fs::exists("/dev/shm") ? "/dev/shm" : "");
  std::mt19937 random(3);
  const auto kernel_of = [](int i) {
    CompiledKernel kernel =
        FakeKernel(std::string(1000 + i % 97 * 500, 'x') + std::to_string(i));
    return kernel;
  };
  DiskStore store({.directory = directory.path(), .limit_bytes = kLimit});
  int hits = 0;
  for (int round = 0; round < kKeys; ++round) {
    // Half of the load goes to a tenth of the keys.
    const int i = random() % (random() % 2 == 0 ? kKeys : kKeys / 10);
    const CompiledKernel kernel = kernel_of(i);
    const absl::StatusOr<CompiledKernel> read = store.Load(kernel.key);
    if (read.ok()) {
      ++hits;
      ASSERT_EQ(read->source, kernel.source);
    } else {
      ASSERT_TRUE(absl::IsNotFound(read.status())) << read.status();
      ASSERT_TRUE(store.Store(kernel).ok());
    }
    if (round % 10 != 0) continue;
    ASSERT_LE(BytesBelow(directory.path()), kLimit);
  }
  EXPECT_GT(hits, 1000);
  EXPECT_GT(BytesBelow(directory.path()), kLimit * 9 / 10);
}

}  // namespace
}  // namespace gemmd::jit
