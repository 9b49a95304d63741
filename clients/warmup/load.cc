// gemm-warmup load: makes a running daemon ready for a list of problems.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
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
#include "jit/base/status.h"
#include "jit/problem/problem_line.h"
#include "proto/convert/problem.h"

namespace gemmd::warmup {
namespace {

// What becomes of the problems, told by several threads.
class Tally {
 public:
  explicit Tally(int problems) : progress_(stdout, problems) {}

  void Add(const std::string& line,
           const absl::StatusOr<std::vector<v1::Execution>>& executions) {
    if (executions.ok()) {
      std::lock_guard lock(mutex_);
      for (const v1::Execution& execution : *executions) {
        kernels_.insert(
            absl::StrCat(execution.device(), execution.cubin_key()));
        compiled_ += execution.cubin_source() == v1::CUBIN_SOURCE_COMPILED;
      }
    } else {
      progress_.Note(
          absl::StrCat("failed: ", line, ": ", executions.status().message()));
      std::lock_guard lock(mutex_);
      ++failed_;
      if (absl::IsUnavailable(executions.status())) {
        gone_ = executions.status();
      }
    }
    progress_.Step(line);
  }

  // Not OK once the daemon has gone.
  absl::Status gone() {
    std::lock_guard lock(mutex_);
    return gone_;
  }

  int Finish(size_t problems) {
    std::lock_guard lock(mutex_);
    progress_.Note(absl::StrFormat(
        "%d problems: %d kernels loaded, %d of them compiled, %d problems "
        "failed",
        problems, kernels_.size(), compiled_, failed_));
    return failed_ == 0 ? kExitComplete : kExitIncomplete;
  }

 private:
  Progress progress_;
  std::mutex mutex_;
  std::set<std::string> kernels_ ABSL_GUARDED_BY(mutex_);
  int compiled_ ABSL_GUARDED_BY(mutex_) = 0;
  int failed_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status gone_ ABSL_GUARDED_BY(mutex_);
};

// One call per problem, so that one failure does not hide the others.
absl::StatusOr<std::vector<v1::Execution>> Prepare(client::Client& client,
                                                   const jit::Problem& problem,
                                                   const std::string& device) {
  const v1::Problem wire = convert::ToWire(problem);
  return client.PrepareKernels({&wire, 1}, device);
}

absl::StatusOr<int> Run(const Flags& flags) {
  ASSIGN_OR_RETURN(const Connection to, ConnectionOf(flags));
  RETURN_IF_ERROR(CheckProblemsGiven(flags));
  ASSIGN_OR_RETURN(const int64_t jobs, flags.GetInt("jobs", 8, 1, 256));
  ASSIGN_OR_RETURN(const std::unique_ptr<client::Client> client,
                   client::Client::Connect(to.server, to.options));
  ASSIGN_OR_RETURN(const std::vector<jit::DeviceProperties> devices,
                   DevicesOf(*client));
  ASSIGN_OR_RETURN(const std::vector<jit::Problem> problems,
                   ReadProblems(flags, devices));
  const std::string device = flags.Get("device", "");
  Tally tally(static_cast<int>(problems.size()));
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i; (i = next++) < problems.size() && tally.gone().ok();) {
      tally.Add(jit::ProblemLine(problems[i]),
                Prepare(*client, problems[i], device));
    }
  };
  std::vector<std::thread> threads;
  const size_t useful = std::min<size_t>(jobs, problems.size());
  while (threads.size() < useful) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  RETURN_IF_ERROR(tally.gone());
  return tally.Finish(problems.size());
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
               {"jobs", "N",
                "Problems at a time, up to 256; the daemon has "
                "--compile-threads of its own. Default: 8."}}),
          .run = Run};
}

}  // namespace gemmd::warmup
