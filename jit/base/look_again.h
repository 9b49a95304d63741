// When to look again for what another process makes: after an eighth of the
// time that it has been waited for, so that nobody waits for much longer than
// it took, within bounds. A pure function.
#ifndef GEMMD_JIT_BASE_LOOK_AGAIN_H_
#define GEMMD_JIT_BASE_LOOK_AGAIN_H_

#include <algorithm>

#include "absl/time/time.h"

namespace gemmd::jit {

inline absl::Duration UntilNextLook(absl::Duration waited) {
  return std::clamp(waited / 8, absl::Milliseconds(5), absl::Milliseconds(100));
}

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_BASE_LOOK_AGAIN_H_
