// Directories that others write to while this process looks for kernels.
#include "jit/cache/source_index.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/base/file.h"
#include "jit/base/steady_time.h"
#include "jit/cache/cache_key.h"
#include "tests/jit/fake_compiler.h"
#include "tests/settable_clock.h"

namespace gemmd::jit {
namespace {

namespace fs = std::filesystem;

Instance InstanceOf(const std::string& source) {
  return {.name = "k", .source = source};
}

class SourceIndexTest : public testing::Test {
 protected:
  SourceIndexTest() { fs::permissions(Entries(), fs::perms::owner_all); }
  ~SourceIndexTest() override { StepClock(0); }

  // Abseil's clock notices it only after up to some seconds.
  static void StepClock(int64_t step) {
    clock_step_s = step;
    while (absl::AbsDuration(absl::Now() - SteadyNow() - absl::Seconds(step)) >
           absl::Seconds(1)) {
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

  fs::path Entries() const {
    const fs::path entries = fs::path(directory_.path()) / "entries";
    fs::create_directory(entries);
    return entries;
  }

  // As another process, at once and as it is.
  std::string Write(const std::string& source, const std::string& bytes = "") {
    const CompiledKernel kernel = FakeKernel(source);
    const fs::path file = Entries() / "temporary";
    std::ofstream(file) << (bytes.empty() ? EncodeEntry(kernel) : bytes);
    fs::rename(file, Entries() / kernel.key);
    return kernel.key;
  }

  // Looks until it finds the key, or for long.
  static bool IsFound(const std::string& source, const std::string& key,
                      SourceIndex& index) {
    for (const absl::Time end = SteadyNow() + absl::Seconds(20);
         SteadyNow() < end; absl::SleepFor(absl::Milliseconds(1))) {
      if (index.Find(InstanceOf(source)) == key) return true;
    }
    return false;
  }
  bool IsFound(const std::string& source, const std::string& key) {
    return IsFound(source, key, index_);
  }

  // Has the directory listed once more, however recent its last listing is.
  void ListAgain() {
    const std::string source = absl::StrCat("another ", ++others_);
    EXPECT_TRUE(IsFound(source, Write(source)));
  }

  const TemporaryDirectory directory_;
  SourceIndex index_{{std::make_shared<DiskStore>(
      DiskStore::Options{.directory = directory_.path()})}};
  int others_ = 0;
};

TEST_F(SourceIndexTest, FindsWhatOthersWriteAndForgetsWhatTheyRemove) {
  EXPECT_EQ(index_.Find(InstanceOf("one")), "");
  const std::string key = Write("one");
  EXPECT_TRUE(IsFound("one", key));
  EXPECT_EQ(index_.FindKnown(InstanceOf("one")), key);
  fs::remove(Entries() / key);
  EXPECT_TRUE(IsFound("one", ""));
}

// One source makes other kernels with other options.
TEST_F(SourceIndexTest, OptionsAreThoseOfTheInstance) {
  const std::string key = Write("one");
  Instance instance = InstanceOf("one");
  instance.options = {FakeKernel("one").options[0]};
  EXPECT_EQ(index_.Find(instance), key);
  instance.options = {"--fmad=false"};
  EXPECT_EQ(index_.Find(instance), "");
}

TEST_F(SourceIndexTest, OfTwoCompilersItPrefersTheNewer) {
  std::string newest;
  for (const char* compiler : {"fake 1.1", "fake 1.3", "fake 1.2"}) {
    CompiledKernel kernel = FakeKernel("one");
    kernel.compiler = compiler;
    kernel.key = CacheKey(kernel.source, kernel.options, kernel.compiler);
    std::ofstream(Entries() / kernel.key) << EncodeEntry(kernel);
    if (kernel.compiler == "fake 1.3") newest = kernel.key;
  }
  EXPECT_EQ(index_.Find(InstanceOf("one")), newest);
}

// From a layer, or from the directory behind it.
TEST_F(SourceIndexTest, LooksIntoEachDirectory) {
  const TemporaryDirectory empty;
  const std::string key = Write("one");
  for (const bool first : {true, false}) {
    std::vector<std::shared_ptr<DiskStore>> stores = {
        std::make_shared<DiskStore>(
            DiskStore::Options{.directory = directory_.path()})};
    stores.insert(first ? stores.end() : stores.begin(),
                  std::make_shared<DiskStore>(DiskStore::Options{
                      .directory = empty.path(), .read_only = true}));
    EXPECT_EQ(SourceIndex(stores).Find(InstanceOf("one")), key) << first;
  }
}

// A request asks for hundreds of kernels that are not there, while another
// process writes: each look would list thousands of entries.
TEST_F(SourceIndexTest, ADirectoryThatChangesIsNotListedAtEachLook) {
  for (int i = 0; i < 2000; ++i) Write(absl::StrCat("entry ", i));
  constexpr int kLooks = 400;
  for (int i = 0; i < kLooks; ++i) {
    std::ofstream(Entries() / absl::StrCat("changes ", i)).close();
    EXPECT_EQ(index_.Find(InstanceOf("none")), "");
  }
  EXPECT_LT(index_.work().listings, kLooks / 4);
  EXPECT_EQ(index_.work().reads, 2000);
}

TEST(KnownEntriesTest, ListingsTakeAFractionOfTheTimeAndAreSecondsApart) {
  const auto pause = KnownEntries::PauseAfter;
  EXPECT_EQ(pause(absl::Milliseconds(20)), absl::Milliseconds(200));
  EXPECT_EQ(pause(absl::Milliseconds(900)), absl::Seconds(2));
  EXPECT_EQ(pause(absl::Seconds(5)), absl::Seconds(5));
}

TEST_F(SourceIndexTest, WhatIsDamagedIsReadOnceUntilItChanges) {
  const std::string key = Write("one", "garbage");
  Write("two", EncodeEntry(FakeKernel("three")));  // Under another key.
  fs::create_directory(Entries() / std::string(64, 'd'));
  fs::create_symlink("elsewhere", Entries() / std::string(64, 'e'));
  // What changed a moment ago may change again unseen.
  EXPECT_EQ(index_.Find(InstanceOf("one")), "");
  ListAgain();
  EXPECT_EQ(index_.work().reads, 4 + 4 + 1);
  StepClock(10);
  ListAgain();
  const int64_t before = index_.work().reads;
  for (int i = 1; i <= 5; ++i) {
    ListAgain();
    EXPECT_EQ(index_.work().reads, before + i) << "only what came";
  }
  Write("one");
  EXPECT_TRUE(IsFound("one", key));
  EXPECT_EQ(index_.work().reads, before + 6);
}

// Too many files are open, or a file server does not answer, for a moment.
TEST_F(SourceIndexTest, WhatCouldNotBeReadOnceIsReadLater) {
  const std::string one = Write("one"), two = Write("two");
  // Changes of a moment ago are looked for again in any case.
  fs::last_write_time(Entries(),
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  rlimit usual;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  const int next = dup(STDERR_FILENO);
  close(next);
  for (int left = 0; left < 5; ++left) {
    SourceIndex index({std::make_shared<DiskStore>(
        DiskStore::Options{.directory = directory_.path()})});
    rlimit few = usual;
    few.rlim_cur = static_cast<rlim_t>(next + left);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    index.Find(InstanceOf("one"));
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
    EXPECT_TRUE(IsFound("one", one, index)) << left;
    EXPECT_TRUE(IsFound("two", two, index)) << left;
  }
}

}  // namespace
}  // namespace gemmd::jit
