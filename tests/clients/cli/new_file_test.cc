// What becomes of the file that somebody named for a result.
#include "clients/cli/new_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/match.h"

namespace gemmd::cli {
namespace {

namespace fs = std::filesystem;

class NewFileTest : public testing::Test {
 protected:
  NewFileTest() {
    std::string folder = testing::TempDir() + "/new_file.XXXXXX";
    folder_ = mkdtemp(folder.data());
  }
  ~NewFileTest() override { fs::remove_all(folder_); }

  std::string Content() const {
    std::ifstream file(path());
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  size_t Files() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_), {}));
  }
  std::string path() const { return folder_ + "/result"; }

  std::string folder_;
};

TEST_F(NewFileTest, ReplacesAFileOnceAllIsThere) {
  std::ofstream(path()) << "old";
  {
    absl::StatusOr<NewFile> file = NewFile::Create(path());
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(file->Write("new").ok());
    EXPECT_EQ(Content(), "old");
    EXPECT_TRUE(file->Keep().ok());
  }
  EXPECT_EQ(Content(), "new");
  EXPECT_EQ(Files(), 1u);
}

TEST_F(NewFileTest, WhatIsNotKeptLeavesNothing) {
  std::ofstream(path()) << "old";
  {
    absl::StatusOr<NewFile> file = NewFile::Create(path());
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(file->Write("new").ok());
  }
  EXPECT_EQ(Content(), "old");
  EXPECT_EQ(Files(), 1u);
}

// As root, /dev/null would become a file of its own.
TEST_F(NewFileTest, APipeIsWrittenToAndNotReplaced) {
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  const jit::UniqueFd reader(open(path().c_str(), O_RDONLY | O_NONBLOCK));
  ASSERT_TRUE(reader.ok());
  {
    absl::StatusOr<NewFile> file = NewFile::Create(path());
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(file->Write("through").ok());
    EXPECT_TRUE(file->Keep().ok());
  }
  char bytes[16];
  EXPECT_EQ(read(reader.get(), bytes, sizeof(bytes)), 7);
  EXPECT_TRUE(fs::is_fifo(path()));
  EXPECT_EQ(Files(), 1u);
}

TEST_F(NewFileTest, ALinkStaysAndLeadsToTheNewFile) {
  std::ofstream(folder_ + "/target") << "old";
  fs::create_symlink("target", path());
  absl::StatusOr<NewFile> file = NewFile::Create(path());
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Write("new").ok());
  EXPECT_TRUE(file->Keep().ok());
  EXPECT_TRUE(fs::is_symlink(path()));
  EXPECT_EQ(Content(), "new");
}

// In a folder that everybody may write to, somebody waits with a link at the
// name that comes next.
TEST_F(NewFileTest, ALinkAtItsTemporaryNameIsNotFollowed) {
  std::ofstream(folder_ + "/victim") << "precious";
  std::vector<std::string> before;
  {
    absl::StatusOr<NewFile> file = NewFile::Create(path());
    ASSERT_TRUE(file.ok()) << file.status();
    for (const auto& entry : fs::directory_iterator(folder_)) {
      before.push_back(entry.path().string());
    }
  }
  for (const std::string& name : before) {
    if (!fs::exists(name)) fs::create_symlink(folder_ + "/victim", name);
  }
  absl::StatusOr<NewFile> file = NewFile::Create(path());
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Write("new").ok());
  ASSERT_TRUE(file->Keep().ok());
  EXPECT_EQ(Content(), "new");
  std::ifstream victim(folder_ + "/victim");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(victim), {}),
            "precious");
}

TEST_F(NewFileTest, ErrorsNameTheFileAndTheReason) {
  const std::string nowhere = folder_ + "/nowhere/result";
  const absl::Status missing = NewFile::Create(nowhere).status();
  EXPECT_TRUE(absl::StrContains(missing.message(), nowhere)) << missing;
  EXPECT_TRUE(absl::StrContains(missing.message(), "No such file")) << missing;

  absl::StatusOr<NewFile> full = NewFile::Create("/dev/full");
  ASSERT_TRUE(full.ok()) << full.status();
  const absl::Status status = full->Write("bytes");
  EXPECT_TRUE(absl::StrContains(status.message(), "No space left")) << status;
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

}  // namespace
}  // namespace gemmd::cli
