// Folders of a cache directory, opened for one operation each: the directory
// may vanish and come back at any time.
#ifndef GEMMD_JIT_BASE_FOLDER_H_
#define GEMMD_JIT_BASE_FOLDER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "jit/base/file.h"

namespace gemmd::jit {

enum class FolderAccess {
  // Of any owner, but nobody else's to write; of a known owner (root, this
  // user, the owner of the directory) where anybody could have put it there.
  kRead,
  kOwn,     // Belongs to this user, and is nobody else's to write.
  kCreate,  // kOwn, made with mode 0700 when it is not there.
};

// The folder `name` in `directory`, which is never a link. NOT_FOUND when it is
// not there, PERMISSION_DENIED when others could put files into it.
absl::StatusOr<UniqueFd> OpenFolder(const std::string& directory,
                                    const char* name, FolderAccess access);

// The file `name` in `directory` to read and write, made when it is not there.
// PERMISSION_DENIED when it is another user's, or lies under another name too:
// what is written there would be written elsewhere.
absl::StatusOr<UniqueFd> OpenOwnFile(const std::string& directory,
                                     const char* name);

// Names in `folder` but "." and "..".
absl::StatusOr<std::vector<std::string>> ReadNames(const UniqueFd& folder);

// The same, empty when it cannot be read.
std::vector<std::string> NamesIn(const UniqueFd& folder);

struct FileUse {
  std::string name;
  int64_t bytes = 0;  // On disk: whole blocks.
  absl::Time used;    // When it was last written or marked as used.
};

// The files of `folder`, least recently used first. A time that is yet to come,
// from before the clock was set back, is longer ago than any other. `now` may
// be that of a file server whose clock is ahead.
std::vector<FileUse> UsesIn(const UniqueFd& folder,
                            absl::Time now = absl::Now());

// The bytes of whole blocks that a file of `bytes` occupies.
int64_t BytesOnDisk(int64_t bytes);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_BASE_FOLDER_H_
