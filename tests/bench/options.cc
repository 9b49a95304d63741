#include "tests/bench/options.h"

#include <fstream>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "jit/problem/group_line.h"
#include "jit/problem/problem_line.h"
#include "tests/bench/sample.h"

namespace gemmd::bench {

const char kUsage[] =
    R"(Usage: gemm_bench [FLAGS]
Times gemmd's kernels against cuBLASLt on the same GPU, in the same run.

Shapes (at least one of):
  --shapes FILE       problems, one a line: "bf16 TN 4096 7168 2304"
  --problem LINE      one problem; may be given several times
  --sample N          N problems that nobody chose: see tests/bench/sample.h
  --seed S            of the sample (1)
  --type TYPE         of the sample (bf16), as a line begins: e4m3-fast, ...;
                      products of 8-bit floating point are written as bf16
  --list              print them, as --shapes reads them, and stop

Ours:
  --candidates N      time the N best plans of each problem (1: the daemon's)
  --explore N         and N more, spread over those of up to four times the
                      predicted time of the best: for fitting the cost model
  --tuning DIR        time also, last of each problem, the plan that a daemon's
                      tuning records in its cache directory name; instead of
                      --candidates and --explore
  --brief yes|no      whether kernels overlap those before and behind them
                      wherever their CTAs lie then, instead of as their plans
                      say (jit/plan/plan.h)
  --cache_dir DIR     cache of compiled kernels (default: none)
  --template_dir DIR  templates instead of those built in
  --nvrtc PATH        file or folder of libnvrtc
  --compile_only      fill the cache and stop; needs no GPU

The library:
  --peer PATH         libcublasLt; "none" goes without (default: search)
  --heuristics N      take the best of its first N heuristics (8)

Method:
  --mode MODE         burst (default), sustained, both, quick: two short
                      samples of everybody, or profile: also one product of
                      everybody for a profiler that waits for it, as
                      ncu --profile-from-start off
  --samples N         bursts of each contender (5)
  --segment MS        of sustained work, four of each contender (350); energy
                      wants 2000
  --no_ceiling        do not measure the tensor cores' own speed
  --device N          ordinal of the GPU (0)

Result:
  --check             verify every kernel that is timed; exit 1 when one errs
  --json FILE         write everything there
)";

namespace {

absl::StatusOr<int> PositiveInteger(const std::string& flag,
                                    const std::string& value, int least) {
  int number = 0;
  if (!absl::SimpleAtoi(value, &number) || number < least) {
    return absl::InvalidArgumentError(absl::StrCat(flag, " is '", value,
                                                   "'; an integer of at least ",
                                                   least, " is allowed"));
  }
  return number;
}

absl::Status AddShapes(const std::string& path, Options& options) {
  std::ifstream file(path);
  if (!file) {
    return absl::InvalidArgumentError(
        absl::StrCat("--shapes ", path, " cannot be read"));
  }
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  ASSIGN_OR_RETURN(const jit::ProblemList list, jit::ParseProblemList(text));
  if (!list.groups.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--shapes ", path, " has groups; allowed: problems"));
  }
  options.problems.insert(options.problems.end(), list.problems.begin(),
                          list.problems.end());
  return absl::OkStatus();
}

// Takes flags without a value. False when `flag` is none of them.
bool TakeSwitch(const std::string& flag, Options& options) {
  if (flag == "--check") {
    options.check = true;
  } else if (flag == "--list") {
    options.list = true;
  } else if (flag == "--compile_only") {
    options.compile_only = true;
  } else if (flag == "--no_ceiling") {
    options.ceiling = false;
  } else {
    return false;
  }
  return true;
}

absl::Status TakeMode(const std::string& mode, Options& options) {
  if (mode != "burst" && mode != "sustained" && mode != "both" &&
      mode != "quick" && mode != "profile") {
    return absl::InvalidArgumentError(
        absl::StrCat("--mode is '", mode,
                     "'; allowed: burst, sustained, both, quick, profile"));
  }
  options.burst = mode == "burst" || mode == "both";
  options.sustained = mode == "sustained" || mode == "both";
  options.profile = mode == "profile";
  return absl::OkStatus();
}

// Of --sample, --seed and --type, in any order.
struct SampleOptions {
  int count = 0;
  int seed = 1;
  std::string type = "bf16";
};

// Takes flags of the sample. False when `flag` is none of them.
absl::StatusOr<bool> TakeSample(const std::string& flag,
                                const std::string& value,
                                SampleOptions& sample) {
  if (flag == "--sample") {
    ASSIGN_OR_RETURN(sample.count, PositiveInteger(flag, value, 1));
  } else if (flag == "--seed") {
    ASSIGN_OR_RETURN(sample.seed, PositiveInteger(flag, value, 0));
  } else if (flag == "--type") {
    sample.type = value;
  } else {
    return false;
  }
  return true;
}

absl::Status TakeBrief(const std::string& value, Options& options) {
  if (value != "yes" && value != "no") {
    return absl::InvalidArgumentError(
        absl::StrCat("--brief is '", value, "'; allowed: yes, no"));
  }
  options.brief = value == "yes";
  return absl::OkStatus();
}

absl::Status TakeValue(const std::string& flag, const std::string& value,
                       Options& options) {
  if (flag == "--shapes") return AddShapes(value, options);
  if (flag == "--mode") return TakeMode(value, options);
  if (flag == "--brief") return TakeBrief(value, options);
  if (flag == "--problem") {
    ASSIGN_OR_RETURN(const jit::Problem problem, jit::ParseProblemLine(value));
    options.problems.push_back(problem);
  } else if (flag == "--candidates") {
    ASSIGN_OR_RETURN(options.candidates, PositiveInteger(flag, value, 1));
  } else if (flag == "--explore") {
    ASSIGN_OR_RETURN(options.explore, PositiveInteger(flag, value, 0));
  } else if (flag == "--heuristics") {
    ASSIGN_OR_RETURN(options.heuristics, PositiveInteger(flag, value, 1));
  } else if (flag == "--samples") {
    ASSIGN_OR_RETURN(options.samples, PositiveInteger(flag, value, 1));
  } else if (flag == "--segment") {
    ASSIGN_OR_RETURN(options.segment_ms, PositiveInteger(flag, value, 1));
  } else if (flag == "--device") {
    ASSIGN_OR_RETURN(options.ordinal, PositiveInteger(flag, value, 0));
  } else if (flag == "--peer") {
    options.peer = value;
  } else if (flag == "--json") {
    options.json = value;
  } else if (flag == "--cache_dir") {
    options.cache_directory = value;
  } else if (flag == "--tuning") {
    options.tuning_directory = value;
  } else if (flag == "--template_dir") {
    options.template_directory = value;
  } else if (flag == "--nvrtc") {
    options.nvrtc = value;
  } else {
    return absl::InvalidArgumentError(absl::StrCat("Unknown flag ", flag));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Options> ParseOptions(
    const std::vector<std::string>& arguments) {
  Options options;
  SampleOptions sample;
  for (size_t i = 0; i < arguments.size(); ++i) {
    // "--flag value" and "--flag=value" are the same.
    const size_t equals = arguments[i].find('=');
    const std::string flag = arguments[i].substr(0, equals);
    if (equals == std::string::npos && TakeSwitch(flag, options)) continue;
    std::string value;
    if (equals != std::string::npos) {
      value = arguments[i].substr(equals + 1);
    } else if (++i < arguments.size()) {
      value = arguments[i];
    } else {
      return absl::InvalidArgumentError(absl::StrCat(flag, " lacks a value"));
    }
    ASSIGN_OR_RETURN(const bool taken, TakeSample(flag, value, sample));
    if (!taken) RETURN_IF_ERROR(TakeValue(flag, value, options));
  }
  ASSIGN_OR_RETURN(jit::Problem like, jit::ParseProblemLine(absl::StrCat(
                                          sample.type, " TN 16 16 16")));
  // The library writes 8 bits only with a scale.
  if (jit::IsFp8(like.d_type)) {
    like.d_type = like.c_type = jit::DataType::kBf16;
  }
  for (const jit::Problem& problem :
       SampleProblems(sample.count, static_cast<uint64_t>(sample.seed), like)) {
    options.problems.push_back(problem);
  }
  if (options.problems.empty()) {
    return absl::InvalidArgumentError(
        "No problems: --shapes, --problem or --sample is needed");
  }
  if (!options.tuning_directory.empty() &&
      options.candidates + options.explore > 1) {
    return absl::InvalidArgumentError(
        "--tuning goes with neither --candidates nor --explore");
  }
  for (const jit::Problem& problem : options.problems) {
    if (!problem.writes()) {
      return absl::InvalidArgumentError(
          absl::StrCat(jit::ProblemLine(problem), " has no result to time"));
    }
  }
  return options;
}

}  // namespace gemmd::bench
