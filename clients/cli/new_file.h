// A file that a program writes because somebody named it. A regular file is
// replaced at once when all of it is there; a pipe, a terminal or a device is
// written to, and not replaced; "-" is standard output. Not thread-safe.
#ifndef GEMMD_CLIENTS_CLI_NEW_FILE_H_
#define GEMMD_CLIENTS_CLI_NEW_FILE_H_

#include <cstdint>
#include <string>

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
  NewFile(NewFile&&) = default;
  ~NewFile();

  absl::Status Write(absl::string_view bytes);
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

}  // namespace gemmd::cli

#endif  // GEMMD_CLIENTS_CLI_NEW_FILE_H_
