// What was loaded last of something that is read again and again, so that each
// change, and each error, counts once. Thread-compatible.
#ifndef GEMMD_JIT_BASE_LAST_LOADED_H_
#define GEMMD_JIT_BASE_LAST_LOADED_H_

#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gemmd::jit {

template <typename Content>
class LastLoaded {
 public:
  // Calls `load` with what is another content than last time; true when it is
  // loaded. After an error the next call loads in any case: what was wrong may
  // have been something else. An error of either is returned unless it is that
  // of the last call, and then counts as no change.
  absl::StatusOr<bool> Load(
      absl::StatusOr<Content> read,
      absl::FunctionRef<absl::Status(const Content&)> load) {
    const absl::Status before = std::exchange(told_, absl::OkStatus());
    if (before.ok() && read.ok() && loaded_ == *read) return false;
    absl::Status status = read.ok() ? load(*read) : read.status();
    if (status.ok()) {
      loaded_ = *std::move(read);
      return true;
    }
    told_ = status;
    if (status == before) return false;
    return status;
  }

 private:
  std::optional<Content> loaded_;  // Nothing has been.
  absl::Status told_;              // The error of the last call.
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_BASE_LAST_LOADED_H_
