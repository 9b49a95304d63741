// gemm-warmup tune: lets a running daemon find out how a list of problems runs
// best on its GPUs.
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cpp/client.h"
#include "clients/warmup/command.h"
#include "clients/warmup/connect.h"
#include "clients/warmup/daemon_devices.h"
#include "clients/warmup/problems.h"
#include "clients/warmup/progress.h"
#include "jit/base/for_each.h"
#include "jit/base/status.h"
#include "jit/problem/problem_line.h"
#include "proto/convert/problem.h"

namespace gemmd::warmup {
namespace {

std::string Describe(const v1::TuneKernelsResponse& tuned) {
  if (tuned.kernel() == tuned.kernel_before() &&
      tuned.splits() == tuned.splits_before()) {
    return absl::StrFormat("%.2f us stay", tuned.us());
  }
  const std::string splits =
      tuned.splits() == tuned.splits_before()
          ? ""
          : absl::StrCat(", in ", tuned.splits(), " parts of k instead of ",
                         tuned.splits_before());
  return absl::StrFormat("%.2f us instead of %.2f, by %s%s", tuned.us(),
                         tuned.us_before(), tuned.kernel(), splits);
}

std::string Json(const std::string& line,
                 const v1::TuneKernelsResponse& tuned) {
  std::string fields;
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  if (!google::protobuf::util::MessageToJsonString(tuned, &fields, options)
           .ok()) {
    return "";
  }
  // Lines of problems have no characters that JSON escapes.
  return absl::StrCat("{\"line\":\"", line, "\",", fields.substr(1));
}

// What becomes of the problems, told by several threads.
class Tally {
 public:
  // With `json` a line of it for each problem and device goes to standard
  // output, and the rest to standard error.
  Tally(int problems, bool json)
      : json_(json), progress_(json ? stderr : stdout, problems) {}

  void Add(const std::string& line, const v1::TuneKernelsResponse& tuned) {
    std::lock_guard lock(mutex_);
    ++tuned_;
    changed_ += tuned.us() < tuned.us_before();
    // Who says 0 has measured nothing.
    if (tuned.us() > 0 && tuned.us_before() > 0) {
      log_gain_ += std::log(tuned.us_before() / tuned.us());
    }
    if (json_) {
      absl::PrintF("%s\n", Json(line, tuned));
      std::fflush(stdout);
    }
  }
  // `how` the problem runs now.
  void End(const std::string& line, const absl::StatusOr<std::string>& how) {
    if (how.ok()) return progress_.Step(absl::StrCat(line, ": ", *how));
    const absl::Status& status = how.status();
    {
      std::lock_guard lock(mutex_);
      ++failed_;
      if (Ends(status)) ended_ = status;
    }
    progress_.Fault(absl::StrCat("failed: ", line, ": ", status.message()));
    progress_.Step(line);
  }

  // Not OK once there is no use in asking on.
  absl::Status ended() {
    std::lock_guard lock(mutex_);
    return ended_;
  }

  int Finish(size_t problems) {
    std::lock_guard lock(mutex_);
    progress_.Note(absl::StrFormat(
        "%d problems: %d tuned, %d of them faster; %.3f times as fast in the "
        "geometric mean; %d failed",
        problems, tuned_, changed_,
        tuned_ == 0 ? 1.0 : std::exp(log_gain_ / tuned_), failed_));
    return failed_ == 0 ? kExitComplete : kExitIncomplete;
  }

 private:
  // No other problem would fare better.
  static bool Ends(const absl::Status& status) {
    return absl::IsPermissionDenied(status) || absl::IsUnimplemented(status);
  }

  const bool json_;
  Progress progress_;
  std::mutex mutex_;
  int tuned_ ABSL_GUARDED_BY(mutex_) = 0;
  int changed_ ABSL_GUARDED_BY(mutex_) = 0;
  int failed_ ABSL_GUARDED_BY(mutex_) = 0;
  double log_gain_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);
};

// One call per problem, so that one failure does not hide the others. How it
// runs on the device that was the last.
absl::StatusOr<std::string> Tune(client::Client& client,
                                 const jit::Problem& problem,
                                 v1::TuneKernelsRequest request, Tally& tally) {
  *request.add_problems() = convert::ToWire(problem);
  std::string how;
  RETURN_IF_ERROR(
      client.TuneKernels(request, [&](const v1::TuneKernelsResponse& tuned) {
        tally.Add(jit::ProblemLine(problem), tuned);
        how = Describe(tuned);
      }));
  return how;
}

absl::StatusOr<int> Run(const Flags& flags) {
  ASSIGN_OR_RETURN(const Connection to, ConnectionOf(flags));
  RETURN_IF_ERROR(CheckProblemsGiven(flags));
  RETURN_IF_ERROR(CheckPresets(flags));
  ASSIGN_OR_RETURN(const int64_t jobs, flags.GetInt("jobs", 4, 1, 64));
  ASSIGN_OR_RETURN(const int64_t candidates,
                   flags.GetInt("candidates", 16, 1, 64));
  ASSIGN_OR_RETURN(const std::unique_ptr<client::Client> client,
                   client::Client::Connect(to.server, to.options));
  ASSIGN_OR_RETURN(const std::vector<jit::DeviceProperties> devices,
                   DevicesOf(*client));
  ASSIGN_OR_RETURN(jit::ProblemList list, ReadProblems(flags, devices));
  if (!list.groups.empty()) {
    absl::FPrintF(stderr,
                  "%d groups left out: kernels are timed for single products\n",
                  list.groups.size());
  }
  std::vector<jit::Problem> problems = std::move(list.problems);
  // There is one way to multiply nothing.
  std::erase_if(problems, [](const jit::Problem& problem) {
    return !problem.reads_ab() || !problem.writes();
  });
  v1::TuneKernelsRequest request;
  request.set_device(flags.Get("device", ""));
  request.set_candidates(static_cast<int>(candidates));
  request.set_new_generation(flags.Has("new_generation"));
  Tally tally(static_cast<int>(problems.size()), flags.Has("json"));
  jit::ForEach(jobs, static_cast<int64_t>(problems.size()), [&](int64_t i) {
    if (!tally.ended().ok()) return;
    tally.End(jit::ProblemLine(problems[i]),
              Tune(*client, problems[i], request, tally));
  });
  RETURN_IF_ERROR(tally.ended());
  return tally.Finish(problems.size());
}

}  // namespace

Command TuneCommand() {
  return {
      .name = "tune",
      .operands = "[FILE]...",
      .summary = "Let a running daemon time kernels and keep the fastest.",
      .details = absl::StrCat(
          kProblemFiles,
          "The daemon needs --admin-calls, or the caller the role admin, and a "
          "GPU. What it finds out is kept "
          "in its cache\ndirectory, which `export` carries to others.\n"),
      .flags = WithConnection(
          {{"device", "NAME", "such as cuda:0; default: all devices"},
           PresetFlag(),
           PresetTokensFlag(),
           {"candidates", "N",
            "Kernels that are timed for each problem, 1 to 64. Default: 16."},
           {"new_generation", "",
            "Let results change in their last bits: also try other parts of k "
            "to sum in than those that the problems have now."},
           {"jobs", "N",
            "Problems at a time, up to 64: kernels of one are compiled while "
            "those of another are timed. Default: 4."},
           {"json", "",
            "Print a line of JSON for each problem and device; all else goes "
            "to standard error."}}),
      .run = Run};
}

}  // namespace gemmd::warmup
