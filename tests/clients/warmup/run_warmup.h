// Runs gemm-warmup as a shell would.
#ifndef GEMMD_TESTS_CLIENTS_WARMUP_RUN_WARMUP_H_
#define GEMMD_TESTS_CLIENTS_WARMUP_RUN_WARMUP_H_

#include <sys/wait.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"

namespace gemmd::warmup {

struct Outcome {
  int code;
  std::string output;  // Both streams.
};

// A line of a shell.
inline Outcome WarmupShell(const std::string& line) {
  std::FILE* const pipe =
      popen(absl::StrCat("{ ", line, "\n} 2>&1").c_str(), "r");
  Outcome outcome;
  char buffer[4096];
  for (size_t got; (got = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
    outcome.output.append(buffer, got);
  }
  outcome.code = WEXITSTATUS(pclose(pipe));
  return outcome;
}

inline Outcome Warmup(const std::string& arguments) {
  return WarmupShell(absl::StrCat(GEMMD_TEST_WARMUP, " ", arguments));
}

}  // namespace gemmd::warmup

#endif  // GEMMD_TESTS_CLIENTS_WARMUP_RUN_WARMUP_H_
