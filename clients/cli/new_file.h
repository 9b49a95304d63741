// A file that a program writes because somebody named it. A regular file is
// replaced at once when all of it is there, by one of the same owner and mode,
// where a link leads to it, too. What cannot be replaced is written to: a pipe,
// a terminal, a device, what a descriptor of a process is open for
// (/dev/stdout), and a file in a folder that takes no other. "-" is standard
// output. Not thread-safe.
#ifndef GEMMD_CLIENTS_CLI_NEW_FILE_H_
#define GEMMD_CLIENTS_CLI_NEW_FILE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "jit/base/file.h"

namespace gemmd::cli {

class NewFile {
 public:
  // Errors of all calls name `path` and the reason. The file at `path` is as
  // it was until Keep, and for ever when Keep is not called.
  static absl::StatusOr<NewFile> Create(const std::string& path);
  NewFile(NewFile&& other) noexcept
      : path_(std::move(other.path_)),
        temporary_(std::exchange(other.temporary_, "")),
        file_(std::move(other.file_)),
        bytes_(other.bytes_) {}
  ~NewFile();

  absl::Status Write(absl::string_view bytes);
  // Nothing more is written. Optional: of files that appear together, what can
  // go wrong has to do so before the first one is kept.
  absl::Status Finish();
  absl::Status Keep();

  int64_t bytes() const { return bytes_; }

 private:
  NewFile(std::string path, std::string temporary, jit::UniqueFd file)
      : path_(std::move(path)),
        temporary_(std::move(temporary)),
        file_(std::move(file)) {}

  std::string path_;
  std::string temporary_;  // Empty: what is written arrives at once.
  jit::UniqueFd file_;
  int64_t bytes_ = 0;
};

// Where links lead that `path` is, whether or not something is there. A link to
// what a process has open stays what it is: it leads to no name.
std::string FollowLinks(const std::string& path);

}  // namespace gemmd::cli

#endif  // GEMMD_CLIENTS_CLI_NEW_FILE_H_
