#include "jit/compile/file_digest.h"

#include <unistd.h>

#include <cerrno>
#include <vector>

#include "jit/base/file.h"
#include "jit/base/sha256.h"
#include "jit/base/status.h"
#include "jit/compile/file_notes.h"

namespace gemmd::jit {
namespace {

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

absl::StatusOr<std::string> DigestOfFile(int file,
                                         const std::string& directory) {
  ASSIGN_OR_RETURN(const FileStamp stamp, StampOf(file));
  const std::string name = NameOf("file", stamp);
  const FileNotes notes(directory);
  std::string digest = notes.Recall(name);
  if (digest.size() == kSha256Bytes) return digest;
  ASSIGN_OR_RETURN(digest, Digest(file));
  ASSIGN_OR_RETURN(const FileStamp after, StampOf(file));
  if (after != stamp) {
    return absl::UnavailableError("a file of the compiler changes");
  }
  notes.Note(name, stamp, digest);
  return digest;
}

}  // namespace gemmd::jit
