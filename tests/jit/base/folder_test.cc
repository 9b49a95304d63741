// Whose folders and files a cache believes and writes.
#include "jit/base/folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {
namespace {

namespace fs = std::filesystem;

constexpr FolderAccess kAll[] = {FolderAccess::kRead, FolderAccess::kOwn,
                                 FolderAccess::kCreate};
constexpr uid_t kSomebody = 65533;

class FolderTest : public testing::Test {
 protected:
  fs::path Path(const std::string& name) const {
    return fs::path(directory_.path()) / name;
  }
  absl::Status Open(FolderAccess access) const {
    return OpenFolder(directory_.path(), "folder", access).status();
  }
  absl::Status OpenFile() const {
    return OpenOwnFile(directory_.path(), "file").status();
  }

  const TemporaryDirectory directory_;
};

TEST_F(FolderTest, MayBeWrittenByNobodyElse) {
  fs::create_directory(Path("folder"));
  for (const FolderAccess access : kAll) {
    for (const mode_t mode : {0770, 0707}) {
      ASSERT_EQ(chmod(Path("folder").c_str(), mode), 0);
      EXPECT_TRUE(absl::IsInternal(Open(access))) << mode;
    }
    ASSERT_EQ(chmod(Path("folder").c_str(), 0755), 0);
    EXPECT_TRUE(Open(access).ok());
  }
}

TEST_F(FolderTest, OfAnotherUserIsOnlyRead) {
  if (geteuid() != 0) GTEST_SKIP() << "needs the right to give files away";
  fs::create_directory(Path("folder"));
  ASSERT_EQ(chmod(Path("folder").c_str(), 0755), 0);
  ASSERT_EQ(chown(Path("folder").c_str(), kSomebody, kSomebody), 0);
  for (const FolderAccess access : kAll) {
    EXPECT_EQ(Open(access).code(), access == FolderAccess::kRead
                                       ? absl::StatusCode::kOk
                                       : absl::StatusCode::kInternal);
  }
}

TEST_F(FolderTest, AFileIsMadeForThisUserAlone) {
  const mode_t before = umask(0);
  const absl::Cleanup reset = [before] { umask(before); };
  ASSERT_TRUE(OpenFile().ok());
  EXPECT_EQ(fs::status(Path("file")).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  if (geteuid() != 0) return;
  ASSERT_EQ(chown(Path("file").c_str(), kSomebody, kSomebody), 0);
  EXPECT_TRUE(absl::IsInternal(OpenFile()));
}

TEST_F(FolderTest, AFileIsNoLinkAndNoPipe) {
  std::ofstream(Path("precious"));
  fs::create_symlink(Path("precious"), Path("file"));
  EXPECT_FALSE(OpenFile().ok());
  fs::remove(Path("file"));
  ASSERT_EQ(mkfifo(Path("file").c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsInternal(OpenFile()));
}

// Clocks of machines differ by minutes; one that was hours ahead was wrong.
TEST_F(FolderTest, ATimeThatIsFarAheadIsLongAgo) {
  ASSERT_TRUE(Open(FolderAccess::kCreate).ok());
  const auto now = fs::file_time_type::clock::now();
  const auto write = [&](const std::string& name, std::chrono::minutes at) {
    std::ofstream(Path("folder/" + name));
    fs::last_write_time(Path("folder/" + name), now + at);
  };
  write("of today", -std::chrono::minutes(1));
  write("a little ahead", std::chrono::minutes(30));
  write("old", -std::chrono::hours(24));
  write("far ahead", std::chrono::hours(2));
  std::vector<std::string> names;
  for (const FileUse& file :
       UsesIn(*OpenFolder(directory_.path(), "folder", FolderAccess::kOwn))) {
    names.push_back(file.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"far ahead", "old", "of today",
                                             "a little ahead"}));
}

}  // namespace
}  // namespace gemmd::jit
