// What becomes of the file that somebody named for a result.
#include "clients/cli/new_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

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

// While it lives this thread may do with files what their modes say, root's
// thread too; `folder` is then its own.
class WithoutPrivileges {
 public:
  explicit WithoutPrivileges(const std::string& folder) {
    if (geteuid() != 0) return;
    constexpr uid_t kNobody = 65534;
    EXPECT_EQ(chown(folder.c_str(), kNobody, kNobody), 0);
    setfsuid(kNobody);
  }
  ~WithoutPrivileges() { setfsuid(geteuid()); }
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

TEST_F(NewFileTest, ALinkToNothingLeadsToTheNewFile) {
  fs::create_symlink("other", path());
  fs::create_symlink(folder_ + "/target", folder_ + "/other");
  absl::StatusOr<NewFile> file = NewFile::Create(path());
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Write("new").ok());
  EXPECT_TRUE(file->Keep().ok());
  EXPECT_TRUE(fs::is_symlink(path()));
  EXPECT_TRUE(fs::is_symlink(folder_ + "/other"));
  EXPECT_FALSE(fs::is_symlink(folder_ + "/target"));
  EXPECT_EQ(Content(), "new");
}

TEST_F(NewFileTest, TheNewFileIsForWhomTheOldOneWas) {
  std::ofstream(path()) << "old";
  ASSERT_EQ(chmod(path().c_str(), 0604), 0);
  const bool root = geteuid() == 0;
  ASSERT_TRUE(!root || chown(path().c_str(), 12, 34) == 0);
  struct stat old, now;
  ASSERT_EQ(stat(path().c_str(), &old), 0);
  absl::StatusOr<NewFile> file = NewFile::Create(path());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->Keep().ok());
  ASSERT_EQ(stat(path().c_str(), &now), 0);
  EXPECT_NE(now.st_ino, old.st_ino);
  EXPECT_EQ(now.st_mode, old.st_mode);
  EXPECT_EQ(now.st_uid, old.st_uid);
  EXPECT_EQ(now.st_gid, old.st_gid);
}

TEST_F(NewFileTest, WhatADescriptorIsOpenForStaysThat) {
  std::ofstream(path()) << "something old";
  const jit::UniqueFd open_file(open(path().c_str(), O_WRONLY));
  struct stat old, now;
  ASSERT_EQ(fstat(open_file.get(), &old), 0);
  for (const char* const names : {"/dev/fd/", "/proc/self/fd/"}) {
    absl::StatusOr<NewFile> file =
        NewFile::Create(absl::StrCat(names, open_file.get()));
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(file->Write("new").ok());
    EXPECT_TRUE(file->Keep().ok());
    ASSERT_EQ(stat(path().c_str(), &now), 0);
    EXPECT_EQ(now.st_ino, old.st_ino);
    EXPECT_EQ(Content(), "new");
  }
}

// Such as a file that is mounted into a container on its own.
TEST_F(NewFileTest, AFileInAFolderThatTakesNoOtherIsWrittenTo) {
  const WithoutPrivileges nothing_more(folder_);
  std::ofstream(path()) << "something old";
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  absl::StatusOr<NewFile> file = NewFile::Create(path());
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Write("new").ok());
  EXPECT_TRUE(file->Keep().ok());
  EXPECT_EQ(Content(), "new");
  fs::permissions(folder_, fs::perms::owner_all);
}

TEST_F(NewFileTest, AFileThatMayNotBeWrittenIsNotReplaced) {
  const WithoutPrivileges nothing_more(folder_);
  std::ofstream(path()) << "old";
  fs::permissions(path(), fs::perms::owner_read);
  EXPECT_FALSE(NewFile::Create(path()).ok());
  EXPECT_EQ(Content(), "old");
}

TEST_F(NewFileTest, NamesAreAsLongAsAFolderTakesThem) {
  const std::string name = folder_ + "/" + std::string(255, 'x');
  absl::StatusOr<NewFile> file = NewFile::Create(name);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->Keep().ok());
  EXPECT_TRUE(fs::exists(name));
}

TEST_F(NewFileTest, FilesThatAreFinishedAppearWhenTheyAreKept) {
  std::vector<NewFile> files;
  for (const char* const name : {"/one", "/other"}) {
    absl::StatusOr<NewFile> file = NewFile::Create(folder_ + name);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(file->Write(name).ok());
    ASSERT_TRUE(file->Finish().ok());
    files.push_back(*std::move(file));
  }
  EXPECT_FALSE(fs::exists(folder_ + "/one"));
  EXPECT_TRUE(files[0].Keep().ok());
  EXPECT_TRUE(fs::exists(folder_ + "/one"));
  files.clear();
  EXPECT_EQ(Files(), 1u);
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
  EXPECT_FALSE(NewFile::Create("").ok());

  absl::StatusOr<NewFile> full = NewFile::Create("/dev/full");
  ASSERT_TRUE(full.ok()) << full.status();
  const absl::Status status = full->Write("bytes");
  EXPECT_TRUE(absl::StrContains(status.message(), "No space left")) << status;
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

}  // namespace
}  // namespace gemmd::cli
