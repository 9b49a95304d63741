// What a store owes to others that use its directory, of this version or of
// another, and to layers, which are theirs.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "jit/base/frame.h"
#include "jit/cache/disk_store.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {
namespace {

namespace fs = std::filesystem;

class SharedDirectoryTest : public testing::Test {
 protected:
  DiskStore Open(bool read_only = false) {
    return DiskStore({.directory = directory_.path(), .read_only = read_only});
  }
  fs::path In(const std::string& name) const {
    return fs::path(directory_.path()) / name;
  }
  fs::path Entry() const { return In("entries/" + kernel_.key); }

  const TemporaryDirectory directory_;
  const CompiledKernel kernel_ = FakeKernel("source");
};

// Else versions that run side by side would put each other's entries aside.
TEST_F(SharedDirectoryTest, AnEntryOfAnotherFormatIsLeftAlone) {
  ASSERT_TRUE(Open().Store(kernel_).ok());
  std::ofstream(Entry(), std::ios::trunc)
      << Frame({.magic = "GEMMDKRN", .format = 9999}, "of another version");
  const absl::Status status = Open().Load(kernel_.key).status();
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_TRUE(fs::exists(Entry()));
}

TEST_F(SharedDirectoryTest, ALayersTimesStayAsTheyAre) {
  ASSERT_TRUE(Open().Store(kernel_).ok());
  const auto used = fs::file_time_type::clock::now() - std::chrono::hours(1);
  fs::last_write_time(Entry(), used);
  DiskStore layer = Open(/*read_only=*/true);
  EXPECT_TRUE(layer.Load(kernel_.key).ok());
  layer.MarkUsed({kernel_.key});
  EXPECT_TRUE(absl::IsPermissionDenied(layer.Collect(4096).status()));
  EXPECT_EQ(fs::last_write_time(Entry()), used);
}

// Whom a key is the name of, its owner knows.
TEST_F(SharedDirectoryTest, WhatALinkPointsToIsNotMarked) {
  ASSERT_TRUE(Open().Store(kernel_).ok());
  fs::rename(Entry(), In("elsewhere"));
  const auto used = fs::file_time_type::clock::now() - std::chrono::hours(1);
  fs::last_write_time(In("elsewhere"), used);
  fs::create_symlink(In("elsewhere"), Entry());
  Open().MarkUsed({kernel_.key});
  EXPECT_EQ(fs::last_write_time(In("elsewhere")), used);
}

// Better lost than met again.
TEST_F(SharedDirectoryTest, DamageThatCannotBeKeptIsRemoved) {
  ASSERT_TRUE(Open().Store(kernel_).ok());
  std::ofstream(Entry(), std::ios::trunc) << "garbage";
  std::ofstream(In("quarantine")) << "in the way";
  EXPECT_TRUE(absl::IsDataLoss(Open().Load(kernel_.key).status()));
  EXPECT_FALSE(fs::exists(Entry()));
}

TEST_F(SharedDirectoryTest, OfWhatIsKeptAsideTheOldestLeaves) {
  for (int i = 0; i < 17; ++i) {
    const CompiledKernel kernel = FakeKernel(std::to_string(i));
    ASSERT_TRUE(Open().Store(kernel).ok());
    fs::last_write_time(
        In("entries/" + kernel.key),
        fs::file_time_type::clock::now() - std::chrono::hours(17 - i));
    ASSERT_TRUE(Open().Quarantine(kernel.key).ok());
  }
  EXPECT_FALSE(fs::exists(In("quarantine/" + FakeKernel("0").key)));
  EXPECT_TRUE(fs::exists(In("quarantine/" + FakeKernel("16").key)));
}

// A file system's times are coarse, and a clock may have been set.
TEST_F(SharedDirectoryTest, AChangeOfAMomentAgoIsNotTheLast) {
  ASSERT_TRUE(Open().Store(kernel_).ok());
  fs::last_write_time(In("entries"), fs::file_time_type::clock::now());
  EXPECT_EQ(Open().ChangedAt(), absl::InfiniteFuture());
  for (const int hours : {-1, 1}) {
    const auto time =
        fs::file_time_type::clock::now() + std::chrono::hours(hours);
    fs::last_write_time(In("entries"), time);
    EXPECT_NE(Open().ChangedAt(), absl::InfiniteFuture()) << hours;
  }
  EXPECT_EQ(DiskStore({.directory = "/nonexistent"}).ChangedAt(),
            absl::InfinitePast());
}

}  // namespace
}  // namespace gemmd::jit
