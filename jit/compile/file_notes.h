// What was found out about files that seldom change, noted in a folder: who
// finds a note need not read them.
#ifndef GEMMD_JIT_COMPILE_FILE_NOTES_H_
#define GEMMD_JIT_COMPILE_FILE_NOTES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "jit/base/file.h"

namespace gemmd::jit {

// Which content a file has, as far as the system tells without reading it.
// Nobody can set the time of change, so that two of these are equal only when
// nothing was written in between, but within a tick of the clock.
struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t bytes = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;

  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

// Of an open file.
absl::StatusOr<FileStamp> StampOf(int file);
// Of the file `name` in `folder`, which is not followed when it is a link.
absl::StatusOr<FileStamp> StampAt(int folder, const std::string& name);

// 64 characters: equal for equal stamps alone. `what` keeps notes of different
// kinds apart.
std::string NameOf(absl::string_view what, const FileStamp& stamp);

// Notes by the names of NameOf, in the folder "identity" of a directory.
class FileNotes {
 public:
  // Makes the folder when it is not there. Nothing is noted or recalled where
  // `directory` is empty or cannot be trusted.
  explicit FileNotes(const std::string& directory);

  // "" when there is none, or a damaged one.
  std::string Recall(const std::string& name) const;
  // `text` has 1 to 256 bytes, and is of a file with the stamp `latest`, of
  // several the one that was changed last: within a tick of the clock nothing
  // is noted. Losing a note costs what it saves: nothing is flushed and errors
  // are not reported.
  void Note(const std::string& name, const FileStamp& latest,
            const std::string& text) const;

 private:
  UniqueFd folder_;
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_COMPILE_FILE_NOTES_H_
