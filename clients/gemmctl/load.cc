// gemmctl load.
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "clients/gemmctl/command.h"
#include "clients/gemmctl/load_report.h"
#include "clients/gemmctl/load_run.h"
#include "clients/gemmctl/load_work.h"

namespace gemmd::gemmctl {
namespace {

struct Options {
  LoadOptions load;
  std::vector<std::string> problems;
  std::vector<std::string> ways = {"inline"};
  int stripes = 4;
  int steps = 100;
  std::string device;
  bool json = false;
};

// Says of what was to be measured and never succeeded why, and whether there
// was such work, or no request at all.
bool TellFailed(const std::vector<std::unique_ptr<Work>>& works,
                const LoadResult& result) {
  bool failed = false;
  bool measured = false;
  for (size_t i = 0; i < works.size(); ++i) {
    const Tally& tally = result.by_work[i];
    measured |= tally.latency.count() > 0;
    if (tally.latency.count() > 0) continue;
    for (const auto& [code, failures] : tally.failures) {
      failed = true;
      Show(stderr, "gemmctl: %s: %s: %s\n", works[i]->name(),
           absl::StatusCodeToString(code), failures.first);
    }
  }
  if (failed || measured) return failed;
  Show(stderr, "gemmctl: no request came to its end\n");
  return true;
}

int Run(client::Client& client, const Options& options) {
  std::vector<std::unique_ptr<Work>> works;
  for (const std::string& line : options.problems) {
    for (const std::string& name : options.ways) {
      GEMMCTL_ASSIGN(const Way way, ParseWay(name), [&](const auto& allowed) {
        return FailUsage(absl::InvalidArgumentError(absl::StrFormat(
            "--ways: %s; allowed: %s", name, allowed.message())));
      });
      GEMMCTL_ASSIGN(Asked asked, ParseWork(line, way), FailUsage);
      asked.stripes = options.stripes;
      asked.steps = options.steps;
      asked.device = options.device;
      GEMMCTL_ASSIGN(works.emplace_back(),
                     Work::Create(client, asked, options.load.concurrency),
                     Fail);
    }
  }
  if (works.empty()) {
    return FailUsage(absl::InvalidArgumentError("--ways is empty"));
  }
  GEMMCTL_ASSIGN(const LoadResult result, RunLoad(client, works, options.load),
                 Fail);
  if (options.json) {
    PrintJson(LoadJson(options.load, result, works));
  } else {
    Show(stdout, "%s", LoadText(options.load, result, works));
  }
  return TellFailed(works, result) ? cli::kExitFailed : cli::kExitOk;
}

}  // namespace

void AddLoad(cli::Command& program) {
  cli::Command& command = program.Subcommand(
      "load",
      "asks for products again and again, and tells how long they take");
  const auto o = std::make_shared<Options>();
  command.Operands("PROBLEM", o->problems, 1,
                   "As in the files of gemm-warmup: \"bf16 TN 512 512 512\", "
                   "or a group, \"bf16 TN 1 512 512 ; 13+0+12*6\".");
  command.List("--ways LIST", o->ways,
               "How operands and results travel: inline, stream (in chunks), "
               "resident (not at all), shared (not at all: in memory that the "
               "daemon shares with a client on its Unix socket), striped (by "
               "--stripes connections, as tensors for the time of a request; "
               "matrices of less than 1 MiB in its message), sequence (as "
               "resident, --steps products in one request), encoded (as "
               "sequence, of which a client encodes its request once), weights "
               "(B not at all, the rest in one message).");
  command.Int("--stripes N", o->stripes, {2, 8},
              "Connections of a striped request, of a client's own.");
  command.Int("--steps N", o->steps, {1, 256},
              "Products of a sequence, one behind the other, which write one "
              "tensor.");
  command.Text(
      "--device NAME", o->device,
      "Of tensors and products; default: the daemon's choice, of each.");
  command.Number("--rate X", o->load.rate, {0, 1e6},
                 "Requests a second, at random times; 0: a closed loop, the "
                 "next when one has ended.");
  command.Int("--connections N", o->load.connections, {1, 1000}, "");
  command.Int("--concurrency N", o->load.concurrency, {1, 4096},
              "Requests in flight at a time, of all connections together.");
  command.Duration("--duration TIME", o->load.duration, absl::Seconds(1),
                   {absl::Milliseconds(1), absl::Hours(1)}, "");
  command.Duration("--warmup TIME", o->load.warmup, absl::Seconds(1),
                   {absl::ZeroDuration(), absl::Hours(1)},
                   "Before, and not counted.");
  command.Duration("--request-timeout TIME", o->load.timeout, absl::Seconds(1),
                   {absl::Milliseconds(1), absl::Hours(1)}, "");
  command.Switch("--json", o->json, "Print JSON.");
  command.Details(
      "Problems and ways take turns. A group is one request, which goes in one "
      "message;\nsparse operands are not shared. A problem that is shared has "
      "one region, for its\noperands and the results of --concurrency "
      "requests. "
      "Every connection is its own.\nOperands are small random integers. "
      "Latencies of an open loop count from when a\nrequest was due, whether "
      "or "
      "not one could be sent then. Phases are "
      "those of the daemon, before\nthem how late a request was sent, after "
      "them the rest: the wire, the client.\nPercentiles are exact within "
      "1.6%.");
  RunWithClient(command,
                [o](client::Client& client) { return Run(client, *o); });
}

}  // namespace gemmd::gemmctl
