// An answer that is given once, by whoever comes first. Thread-safe.
#ifndef GEMMD_SERVICE_ENGINE_ONCE_H_
#define GEMMD_SERVICE_ENGINE_ONCE_H_

#include <atomic>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"

namespace gemmd::engine {

template <typename T>
using Done = absl::AnyInvocable<void(absl::StatusOr<T>)>;

template <typename T>
class Once {
 public:
  explicit Once(Done<T> done) : done_(std::move(done)) {}

  void Answer(absl::StatusOr<T> result) {
    if (!answered_.exchange(true)) std::exchange(done_, {})(std::move(result));
  }

 private:
  std::atomic<bool> answered_ = false;
  Done<T> done_;
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_ONCE_H_
