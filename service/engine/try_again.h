// Errors for want of what others hold at the moment, and will not for long.
#ifndef GEMMD_SERVICE_ENGINE_TRY_AGAIN_H_
#define GEMMD_SERVICE_ENGINE_TRY_AGAIN_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gemmd::engine {

// RESOURCE_EXHAUSTED, which ends with "Try again later."; and after what time
// that may succeed, at least a hundredth of a second and at most five.
absl::Status TryAgainError(absl::string_view message, absl::Duration after);

// Of other errors nothing: what failed would fail again.
std::optional<absl::Duration> TryAgainAfter(const absl::Status& error);

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_TRY_AGAIN_H_
