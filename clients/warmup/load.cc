// gemm-warmup load: makes a running daemon ready for a list of problems.
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/address.h"
#include "clients/cpp/client.h"
#include "clients/warmup/command.h"
#include "clients/warmup/problems.h"
#include "clients/warmup/progress.h"
#include "clients/warmup/wire.h"
#include "jit/base/status.h"
#include "jit/problem/problem_line.h"

namespace gemmd::warmup {
namespace {

absl::StatusOr<int> Run(const Flags& flags) {
  const std::string server = flags.Get("server", cli::DefaultServer());
  RETURN_IF_ERROR(cli::CheckServer(server));
  ASSIGN_OR_RETURN(const std::vector<jit::Problem> problems,
                   ReadProblems(flags));
  ASSIGN_OR_RETURN(const absl::Duration wait,
                   flags.GetDuration("wait", absl::Seconds(10)));
  ASSIGN_OR_RETURN(const std::unique_ptr<client::Client> client,
                   client::Client::Connect(server, {.connect_timeout = wait}));
  Progress progress(stdout, static_cast<int>(problems.size()));
  std::set<std::string> kernels;
  int compiled = 0, failed = 0;
  for (const jit::Problem& problem : problems) {
    const std::string line = jit::ProblemLine(problem);
    // One call per problem, so that one failure does not hide the others.
    const v1::Problem wire = ToWire(problem);
    const auto executions =
        client->PrepareKernels({&wire, 1}, flags.Get("device", ""));
    if (absl::IsUnavailable(executions.status())) return executions.status();
    if (!executions.ok()) {
      ++failed;
      progress.Note(
          absl::StrCat("failed: ", line, ": ", executions.status().message()));
      progress.Step(line);
      continue;
    }
    for (const v1::Execution& execution : *executions) {
      kernels.insert(absl::StrCat(execution.device(), execution.cubin_key()));
      compiled += execution.cubin_source() == v1::CUBIN_SOURCE_COMPILED;
    }
    progress.Step(line);
  }
  progress.Note(absl::StrFormat(
      "%d problems: %d kernels loaded, %d of them compiled, %d problems failed",
      problems.size(), kernels.size(), compiled, failed));
  return failed == 0 ? kExitComplete : kExitIncomplete;
}

}  // namespace

Command LoadCommand() {
  return {.name = "load",
          .operands = "[FILE]...",
          .summary = "Compile and load kernels on a running daemon.",
          .details = absl::StrCat(kProblemFiles,
                                  "Returns when all kernels are loaded.\n"),
          .flags = {{"server", "ADDRESS", cli::ServerHelp()},
                    {"device", "NAME", "such as cuda:0; default: all devices"},
                    {"wait", "TIME",
                     "Wait so long for the daemon to answer. Default: 10s."},
                    PresetFlag()},
          .run = Run};
}

}  // namespace gemmd::warmup
