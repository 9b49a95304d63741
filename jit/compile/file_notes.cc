#include "jit/compile/file_notes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/base/folder.h"
#include "jit/base/sha256.h"

namespace gemmd::jit {
namespace {

constexpr char kFolder[] = "identity";
constexpr size_t kMaxNotes = 64;
constexpr size_t kMaxTextBytes = 256;
// A change within the clock tick of another would not show.
constexpr absl::Duration kTick = absl::Seconds(2);

// The text, and a check that a torn write does not pass.
std::string Checked(const std::string& name, const std::string& text) {
  return text + Sha256Of(name + text);
}

FileStamp Stamp(const struct stat& facts) {
  return {
      .device = facts.st_dev,
      .inode = facts.st_ino,
      .bytes = facts.st_size,
      .modified_ns = absl::ToUnixNanos(absl::TimeFromTimespec(facts.st_mtim)),
      .changed_ns = absl::ToUnixNanos(absl::TimeFromTimespec(facts.st_ctim))};
}

}  // namespace

absl::StatusOr<FileStamp> StampOf(int file) {
  struct stat facts;
  if (fstat(file, &facts) != 0) return ErrnoStatus(errno, "stat a file");
  return Stamp(facts);
}

absl::StatusOr<FileStamp> StampAt(int folder, const std::string& name) {
  struct stat facts;
  if (fstatat(folder, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) {
    return ErrnoStatus(errno, "stat a file");
  }
  return Stamp(facts);
}

std::string NameOf(absl::string_view what, const FileStamp& stamp) {
  return absl::BytesToHexString(Sha256Of(absl::StrCat(
      "gemmd ", what, " ", stamp.device, " ", stamp.inode, " ", stamp.bytes,
      " ", stamp.modified_ns, " ", stamp.changed_ns)));
}

FileNotes::FileNotes(const std::string& directory) {
  if (directory.empty()) return;
  absl::StatusOr<UniqueFd> open =
      OpenFolder(directory, kFolder, FolderAccess::kCreate);
  if (open.ok()) folder_ = *std::move(open);
}

std::string FileNotes::Recall(const std::string& name) const {
  if (!folder_.ok()) return "";
  const absl::StatusOr<std::string> note =
      ReadFileAt(folder_.get(), name, kMaxTextBytes + kSha256Bytes);
  if (!note.ok() || note->size() <= kSha256Bytes) return "";
  const std::string text = note->substr(0, note->size() - kSha256Bytes);
  return *note == Checked(name, text) ? text : "";
}

void FileNotes::Note(const std::string& name, const FileStamp& latest,
                     const std::string& text) const {
  if (!folder_.ok()) return;
  if (absl::Now() - absl::FromUnixNanos(latest.changed_ns) <= kTick) return;
  const std::vector<FileUse> files = UsesIn(folder_);
  for (size_t i = 0; i + kMaxNotes <= files.size(); ++i) {
    unlinkat(folder_.get(), files[i].name.c_str(), 0);
  }
  const std::string temporary = absl::StrCat("new.", getpid());
  const UniqueFd file(
      openat(folder_.get(), temporary.c_str(),
             O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.ok() || !WriteAll(file.get(), Checked(name, text)).ok() ||
      renameat(folder_.get(), temporary.c_str(), folder_.get(), name.c_str()) !=
          0) {
    unlinkat(folder_.get(), temporary.c_str(), 0);
  }
}

}  // namespace gemmd::jit
