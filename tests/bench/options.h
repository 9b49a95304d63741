// Command line of gemm_bench.
#ifndef GEMMD_TESTS_BENCH_OPTIONS_H_
#define GEMMD_TESTS_BENCH_OPTIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "jit/problem/problem.h"

namespace gemmd::bench {

struct Options {
  std::vector<jit::Problem> problems;
  std::string peer;  // Empty: search; "none": without the library.
  int heuristics = 8;
  int candidates = 1;
  int explore = 0;
  int samples = 5;
  int segment_ms = 350;
  bool burst = true;
  bool sustained = false;
  bool profile = false;
  bool check = false;
  std::optional<bool> brief;  // As all plans are.
  bool ceiling = true;
  bool compile_only = false;
  bool list = false;
  int ordinal = 0;
  std::string json;
  std::string cache_directory;
  std::string tuning_directory;
  std::string template_directory;  // Empty: the templates built in.
  std::string nvrtc;
};

extern const char kUsage[];

// INVALID_ARGUMENT says which argument is wrong and what is allowed. Reads
// the file of --shapes.
absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& arguments);

}  // namespace gemmd::bench

#endif  // GEMMD_TESTS_BENCH_OPTIONS_H_
