// What was read last of something that is read again and again, so that each
// change, and each error, counts once. Thread-compatible.
#ifndef GEMMD_JIT_BASE_LAST_READ_H_
#define GEMMD_JIT_BASE_LAST_READ_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gemmd::jit {

template <typename Content>
class LastRead {
 public:
  // True when `read` is another content than last time: it is content() now.
  // An error is returned the first time, and then counts as no change.
  absl::StatusOr<bool> IsNew(absl::StatusOr<Content> read) {
    const bool same = read.ok() ? last_.ok() && *last_ == *read
                                : last_.status() == read.status();
    if (same) return false;
    last_ = std::move(read);
    if (!last_.ok()) return last_.status();
    return true;
  }
  // After IsNew was true, and until it is called again.
  const Content& content() const { return *last_; }

 private:
  absl::StatusOr<Content> last_ = absl::UnavailableError("nothing was read");
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_BASE_LAST_READ_H_
