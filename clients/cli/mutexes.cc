#include "clients/cli/mutexes.h"

#include "absl/synchronization/mutex.h"

namespace gemmd::cli {

void DoNotLookForDeadlocks() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

}  // namespace gemmd::cli
