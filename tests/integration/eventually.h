// Waiting for what another thread or process does, with an end.
#ifndef GEMMD_TESTS_INTEGRATION_EVENTUALLY_H_
#define GEMMD_TESTS_INTEGRATION_EVENTUALLY_H_

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace gemmd::testing {

// Whether `condition` comes true, asked again and again for a minute.
template <typename Condition>
bool Eventually(const Condition& condition) {
  const absl::Time end = absl::Now() + absl::Minutes(1);
  while (!condition()) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(10));
  }
  return true;
}

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_INTEGRATION_EVENTUALLY_H_
