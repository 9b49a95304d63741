#include "jit/base/status.h"

#include <cstdio>
#include <cstdlib>

namespace gemmd::jit {

void CheckFailed(const char* file, int line, absl::string_view condition) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %.*s\n", file, line,
               static_cast<int>(condition.size()), condition.data());
  std::abort();
}

}  // namespace gemmd::jit
