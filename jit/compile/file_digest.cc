#include "jit/compile/file_digest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/base/file.h"
#include "jit/base/folder.h"
#include "jit/base/sha256.h"
#include "jit/base/status.h"

namespace gemmd::jit {
namespace {

constexpr char kFolder[] = "identity";
constexpr size_t kMaxRemembered = 64;
// A change within the clock tick of another would not show.
constexpr absl::Duration kTick = absl::Seconds(2);

std::string NameOf(const FileStamp& stamp) {
  return absl::BytesToHexString(Sha256Of(absl::StrCat(
      "gemmd file ", stamp.device, " ", stamp.inode, " ", stamp.bytes, " ",
      stamp.modified_ns, " ", stamp.changed_ns)));
}

// The digest, and a check that a torn write does not pass.
std::string NoteOf(const std::string& name, const std::string& digest) {
  return digest + Sha256Of(name + digest);
}

std::string Recall(const UniqueFd& folder, const std::string& name) {
  const absl::StatusOr<std::string> note =
      ReadFileAt(folder.get(), name, 2 * kSha256Bytes);
  if (!note.ok() || note->size() != 2 * kSha256Bytes) return "";
  const std::string digest = note->substr(0, kSha256Bytes);
  return *note == NoteOf(name, digest) ? digest : "";
}

// Losing it costs a digest: nothing is flushed and errors are not reported.
void Remember(const UniqueFd& folder, const std::string& name,
              const std::string& digest) {
  const std::vector<FileUse> files = UsesIn(folder);
  for (size_t i = 0; i + kMaxRemembered <= files.size(); ++i) {
    unlinkat(folder.get(), files[i].name.c_str(), 0);
  }
  const std::string temporary = absl::StrCat("new.", getpid());
  const UniqueFd file(
      openat(folder.get(), temporary.c_str(),
             O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.ok() || !WriteAll(file.get(), NoteOf(name, digest)).ok() ||
      renameat(folder.get(), temporary.c_str(), folder.get(), name.c_str()) !=
          0) {
    unlinkat(folder.get(), temporary.c_str(), 0);
  }
}

absl::StatusOr<std::string> Digest(int file) {
  std::vector<char> buffer(1 << 20);
  Sha256 sha256;
  off_t at = 0;
  while (true) {
    const ssize_t got = pread(file, buffer.data(), buffer.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read a file of the compiler");
    if (got == 0) return sha256.Bytes();
    sha256.Update({buffer.data(), static_cast<size_t>(got)});
    at += got;
  }
}

}  // namespace

absl::StatusOr<FileStamp> StampOf(int file) {
  struct stat facts;
  if (fstat(file, &facts) != 0) return ErrnoStatus(errno, "stat a file");
  return FileStamp{
      .device = facts.st_dev,
      .inode = facts.st_ino,
      .bytes = facts.st_size,
      .modified_ns = absl::ToUnixNanos(absl::TimeFromTimespec(facts.st_mtim)),
      .changed_ns = absl::ToUnixNanos(absl::TimeFromTimespec(facts.st_ctim))};
}

absl::StatusOr<std::string> DigestOfFile(int file,
                                         const std::string& directory) {
  ASSIGN_OR_RETURN(const FileStamp stamp, StampOf(file));
  const std::string name = NameOf(stamp);
  UniqueFd folder;
  if (!directory.empty()) {
    absl::StatusOr<UniqueFd> open =
        OpenFolder(directory, kFolder, FolderAccess::kCreate);
    if (open.ok()) folder = *std::move(open);
  }
  if (folder.ok()) {
    std::string digest = Recall(folder, name);
    if (!digest.empty()) return digest;
  }
  ASSIGN_OR_RETURN(std::string digest, Digest(file));
  ASSIGN_OR_RETURN(const FileStamp after, StampOf(file));
  if (after != stamp) {
    return absl::UnavailableError("a file of the compiler changes");
  }
  const absl::Duration age =
      absl::Now() - absl::FromUnixNanos(stamp.changed_ns);
  if (folder.ok() && age > kTick) Remember(folder, name, digest);
  return digest;
}

}  // namespace gemmd::jit
