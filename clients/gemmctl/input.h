// What a matrix is read from: a file, a pipe, or "-", standard input. How much
// there is need not be known before. Thread-compatible.
#ifndef GEMMD_CLIENTS_GEMMCTL_INPUT_H_
#define GEMMD_CLIENTS_GEMMCTL_INPUT_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "jit/base/file.h"

namespace gemmd::gemmctl {

class Input {
 public:
  // Errors name `path`. INVALID_ARGUMENT for a device, which may have no end.
  static absl::StatusOr<Input> Open(const std::string& path);

  // Appends what there is until `bytes` has `size`.
  absl::Status Fill(int64_t size, std::string& bytes);
  // There is nothing more.
  bool ended() const { return ended_; }

 private:
  explicit Input(jit::UniqueFd file) : file_(std::move(file)) {}

  jit::UniqueFd file_;
  bool ended_ = false;
};

// The name of `path` for people.
std::string InputName(const std::string& path);

}  // namespace gemmd::gemmctl

#endif  // GEMMD_CLIENTS_GEMMCTL_INPUT_H_
