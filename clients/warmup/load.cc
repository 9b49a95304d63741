// gemm-warmup load: makes a running daemon ready for a list of problems.
#include <cstdio>
#include <memory>
#include <mutex>
#include <set>
#include <string>
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

// What becomes of the problems, told by several threads.
class Tally {
 public:
  explicit Tally(int problems) : progress_(stdout, problems) {}

  // `gone`: the daemon.
  void Add(const std::string& line,
           const absl::StatusOr<std::vector<v1::Execution>>& executions,
           bool gone) {
    if (executions.ok()) {
      std::lock_guard lock(mutex_);
      for (const v1::Execution& execution : *executions) {
        if (execution.cubin_key().empty()) continue;  // Nothing to do.
        const std::string kernel =
            absl::StrCat(execution.device(), execution.cubin_key());
        kernels_.insert(kernel);
        // All products of a launch say so.
        if (execution.cubin_source() == v1::CUBIN_SOURCE_COMPILED) {
          compiled_.insert(kernel);
        }
      }
    } else {
      progress_.Fault(
          absl::StrCat("failed: ", line, ": ", executions.status().message()));
      std::lock_guard lock(mutex_);
      ++failed_;
      if (gone) gone_ = executions.status();
    }
    progress_.Step(line);
  }

  // Not OK once the daemon has gone.
  absl::Status gone() {
    std::lock_guard lock(mutex_);
    return gone_;
  }

  int Finish(const std::string& asked) {
    std::lock_guard lock(mutex_);
    progress_.Note(
        absl::StrFormat("%s: %d kernels loaded, %d of them compiled, %d failed",
                        asked, kernels_.size(), compiled_.size(), failed_));
    return failed_ == 0 ? kExitComplete : kExitIncomplete;
  }

 private:
  Progress progress_;
  std::mutex mutex_;
  std::set<std::string> kernels_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> compiled_ ABSL_GUARDED_BY(mutex_);
  int failed_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status gone_ ABSL_GUARDED_BY(mutex_);
};

// A call for each problem or group, so that one failure does not hide the
// others.
struct Request {
  std::string line;
  v1::PrepareKernelsRequest wire;
};

std::vector<Request> Requests(const jit::ProblemList& list,
                              const std::string& device) {
  std::vector<Request> requests;
  for (const jit::Problem& problem : list.problems) {
    requests.push_back({jit::ProblemLine(problem), {}});
    *requests.back().wire.add_problems() = convert::ToWire(problem);
  }
  for (const jit::ProblemGroup& group : list.groups) {
    if (group.empty()) continue;
    requests.push_back({jit::GroupLine(group), {}});
    v1::ProblemGroup& wire = *requests.back().wire.add_groups();
    for (const jit::Problem& problem : group) {
      *wire.add_problems() = convert::ToWire(problem);
    }
  }
  for (Request& request : requests) request.wire.set_device(device);
  return requests;
}

absl::StatusOr<int> Run(const Flags& flags) {
  ASSIGN_OR_RETURN(const Connection to, ConnectionOf(flags));
  RETURN_IF_ERROR(CheckProblemsGiven(flags));
  RETURN_IF_ERROR(CheckPresets(flags));
  ASSIGN_OR_RETURN(const int64_t jobs, flags.GetInt("jobs", 8, 1, 256));
  ASSIGN_OR_RETURN(const std::unique_ptr<client::Client> client,
                   client::Client::Connect(to.server, to.options));
  ASSIGN_OR_RETURN(const std::vector<jit::DeviceProperties> devices,
                   DevicesOf(*client));
  ASSIGN_OR_RETURN(const jit::ProblemList list, ReadProblems(flags, devices));
  const std::vector<Request> requests = Requests(list, flags.Get("device", ""));
  Tally tally(static_cast<int>(requests.size()));
  jit::ForEach(jobs, static_cast<int64_t>(requests.size()), [&](int64_t i) {
    if (!tally.gone().ok()) return;
    const auto executions = client->PrepareKernels(requests[i].wire);
    // One whose compiler crashed or hung says UNAVAILABLE, too.
    const bool gone =
        absl::IsUnavailable(executions.status()) && !client->CheckHealth().ok();
    tally.Add(requests[i].line, executions, gone);
  });
  RETURN_IF_ERROR(tally.gone());
  return tally.Finish(CountText(list));
}

}  // namespace

Command LoadCommand() {
  return {.name = "load",
          .operands = "[FILE]...",
          .summary = "Compile and load kernels on a running daemon.",
          .details = absl::StrCat(kProblemFiles,
                                  "Returns when all kernels are loaded.\n"),
          .flags = WithConnection(
              {{"device", "NAME", "such as cuda:0; default: all devices"},
               PresetFlag(),
               PresetTokensFlag(),
               {"jobs", "N",
                "Problems at a time, up to 256; the daemon has "
                "--compile-threads of its own. Default: 8."}}),
          .run = Run};
}

}  // namespace gemmd::warmup
