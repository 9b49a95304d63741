// Waits for what the engine answers; for threads that may.
#ifndef GEMMD_SERVICE_MODELS_AWAIT_H_
#define GEMMD_SERVICE_MODELS_AWAIT_H_

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"

namespace gemmd::models {

// The answer of a call of the engine, which `start` begins.
template <typename T, typename Start>
absl::StatusOr<T> Await(Start start) {
  struct Answer {
    absl::Notification there;
    std::optional<absl::StatusOr<T>> result;
  };
  // Shared, because the engine's thread is still in Notify when this one goes.
  const auto answer = std::make_shared<Answer>();
  start([answer](absl::StatusOr<T> result) {
    answer->result = std::move(result);
    answer->there.Notify();
  });
  answer->there.WaitForNotification();
  return *std::move(answer->result);
}

}  // namespace gemmd::models

#endif  // GEMMD_SERVICE_MODELS_AWAIT_H_
