#include "jit/compile/file_digest.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/time/clock.h"
#include "jit/base/file.h"
#include "jit/base/sha256.h"
#include "jit/compile/file_notes.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {
namespace {

namespace fs = std::filesystem;

class FileDigestTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const {
    return directory_.path() + "/" + name;
  }
  UniqueFd Open(const std::string& name) const {
    return UniqueFd(open(Path(name).c_str(), O_RDONLY | O_CLOEXEC));
  }
  std::string DigestOf(const std::string& name) const {
    const auto digest = DigestOfFile(Open(name).get(), Path("cache"));
    EXPECT_TRUE(digest.ok()) << digest.status();
    return *digest;
  }
  std::string Remembered() const {
    return fs::directory_iterator(Path("cache/identity"))->path();
  }

  const TemporaryDirectory directory_;
};

// Older than a tick of the clock, so that it may be remembered.
void LetATickPass() { absl::SleepFor(absl::Milliseconds(2100)); }

TEST_F(FileDigestTest, RemembersAFileUntilItChanges) {
  std::ofstream(Path("file")) << "content";
  LetATickPass();
  EXPECT_EQ(DigestOf("file"), Sha256Of("content"));
  ASSERT_TRUE(fs::exists(Remembered()));
  // What is remembered is believed: the file is not read.
  const std::string note = Remembered();
  const std::string lie(kSha256Bytes, 'x');
  std::ofstream(note, std::ios::trunc)
      << lie + Sha256Of(fs::path(note).filename().string() + lie);
  EXPECT_EQ(DigestOf("file"), lie);
  // Any change, even one that puts size and time of modification back.
  struct stat before;
  ASSERT_EQ(stat(Path("file").c_str(), &before), 0);
  std::ofstream(Path("file"), std::ios::trunc) << "CONTENT";
  const timespec times[] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, Path("file").c_str(), times, 0), 0);
  EXPECT_EQ(DigestOf("file"), Sha256Of("CONTENT"));
}

TEST_F(FileDigestTest, ANoteThatIsDamagedIsPassedOver) {
  std::ofstream(Path("file")) << "content";
  LetATickPass();
  EXPECT_EQ(DigestOf("file"), Sha256Of("content"));
  for (const char* damage : {"", "short"}) {
    std::ofstream(Remembered(), std::ios::trunc) << damage;
    EXPECT_EQ(DigestOf("file"), Sha256Of("content"));
  }
  std::ofstream(Remembered(), std::ios::trunc) << std::string(64, 'x');
  EXPECT_EQ(DigestOf("file"), Sha256Of("content"));
}

TEST_F(FileDigestTest, IsOfTheWholeFile) {
  std::string content(3 << 20, 'x');
  std::ofstream(Path("file")) << content;
  EXPECT_EQ(DigestOf("file"), Sha256Of(content));
  content.back() = 'y';
  std::ofstream(Path("file")) << content;
  EXPECT_EQ(DigestOf("file"), Sha256Of(content));
}

TEST_F(FileDigestTest, ANoteOfSomethingElseIsNoDigest) {
  std::ofstream(Path("file")) << "content";
  LetATickPass();
  const FileStamp stamp = *StampOf(Open("file").get());
  FileNotes(Path("cache")).Note(NameOf("file", stamp), stamp, "short");
  EXPECT_EQ(DigestOf("file"), Sha256Of("content"));
}

TEST_F(FileDigestTest, NotesAreBounded) {
  const FileNotes notes(Path("cache"));
  for (int i = 0; i < 80; ++i) {
    notes.Note(NameOf("file", {.inode = static_cast<uint64_t>(i)}), {}, "text");
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(Path("cache/identity")), {}),
            64);
}

TEST_F(FileDigestTest, AFileThatHasJustChangedIsNotRemembered) {
  std::ofstream(Path("file")) << "content";
  EXPECT_EQ(DigestOf("file"), Sha256Of("content"));
  EXPECT_TRUE(fs::is_empty(Path("cache/identity")));
}

TEST_F(FileDigestTest, AFolderOfOthersIsNotBelieved) {
  std::ofstream(Path("file")) << "content";
  LetATickPass();
  EXPECT_EQ(DigestOf("file"), Sha256Of("content"));
  fs::permissions(Path("cache/identity"), fs::perms::all);
  std::ofstream(Remembered(), std::ios::trunc) << "anything";
  EXPECT_EQ(DigestOf("file"), Sha256Of("content"));
}

}  // namespace
}  // namespace gemmd::jit
