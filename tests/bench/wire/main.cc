// wire: how fast bytes of matrices move through a gemmd daemon on this machine,
// beside a bare gRPC server.
//
//   wire --target localhost:50051 [--clients 1,8,16] [--json FILE]
#include <malloc.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/mutexes.h"
#include "jit/base/status.h"
#include "tests/bench/wire/bare_process.h"
#include "tests/bench/wire/bare_server.h"
#include "tests/bench/wire/contest.h"
#include "tests/bench/wire/report.h"
#include "tests/bench/wire/way.h"

ABSL_FLAG(std::string, target, "localhost:50051",
          "Address of the daemon, \"host:port\" or \"unix:PATH\"; the bare "
          "server listens at one of the same kind.");
ABSL_FLAG(std::string, device, "",
          "Device to use; empty: the daemon's choice.");
ABSL_FLAG(std::vector<std::string>, ways,
          (std::vector<std::string>{"upload", "download", "stream", "inline"}),
          "upload and download of a tensor; a product in chunks (stream) or in "
          "one message (inline).");
ABSL_FLAG(std::vector<std::string>, clients,
          (std::vector<std::string>{"1", "8", "16"}),
          "How many at a time, each with a thread and connections of its own.");
ABSL_FLAG(int64_t, tensor_bytes, 64 << 20, "Of the tensor.");
ABSL_FLAG(std::string, product, "bf16 TN 4096 4096 2048",
          "The product: large, with little to compute for a byte.");
ABSL_FLAG(int32_t, rounds, 5, "In which the ways take turns.");
ABSL_FLAG(absl::Duration, duration, absl::Seconds(1),
          "Of a round of each contender.");
ABSL_FLAG(int32_t, loops, 0,
          "Completion queues of the bare server; 0: gemmd's default.");
ABSL_FLAG(std::string, json, "", "File to write the figures to.");
ABSL_FLAG(std::string, serve, "",
          "Be the bare server, at this address, until standard input ends.");

namespace gemmd::wire {
namespace {

constexpr int kMostClients = 256;

absl::StatusOr<std::vector<int>> ParseClients(
    const std::vector<std::string>& words) {
  std::vector<int> counts;
  for (const std::string& word : words) {
    int count = 0;
    if (!absl::SimpleAtoi(word, &count) || count < 1 || count > kMostClients) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--clients has \"", word, "\"; allowed: 1 to ", kMostClients));
    }
    counts.push_back(count);
  }
  return counts;
}

absl::Status Write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnknownError(absl::StrCat("cannot write ", path));
}

absl::Status Run() {
  ASSIGN_OR_RETURN(const std::vector<int> counts,
                   ParseClients(absl::GetFlag(FLAGS_clients)));
  std::vector<Way> ways;
  for (const std::string& name : absl::GetFlag(FLAGS_ways)) {
    ASSIGN_OR_RETURN(ways.emplace_back(), ParseWay(name));
  }
  ASSIGN_OR_RETURN(const Load load, MakeLoad(absl::GetFlag(FLAGS_tensor_bytes),
                                             absl::GetFlag(FLAGS_product),
                                             absl::GetFlag(FLAGS_device)));
  ContestOptions options;
  options.daemon = absl::GetFlag(FLAGS_target);
  options.rounds = absl::GetFlag(FLAGS_rounds);
  options.duration = absl::GetFlag(FLAGS_duration);
  if (options.rounds < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--rounds is ", options.rounds, "; allowed: 1 and more"));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<BareProcess> bare,
                   BareProcess::Start(absl::StartsWith(options.daemon, "unix:"),
                                      absl::GetFlag(FLAGS_loops)));
  options.bare = bare->address();
  std::fputs(TableHead().c_str(), stdout);
  std::vector<Row> rows;
  for (const Way way : ways) {
    for (const int clients : counts) {
      ASSIGN_OR_RETURN(Row row, RunContest(way, clients, load, options));
      std::fputs(TableLine(row).c_str(), stdout);
      std::fflush(stdout);
      rows.push_back(std::move(row));
    }
  }
  const std::string path = absl::GetFlag(FLAGS_json);
  return path.empty() ? absl::OkStatus()
                      : Write(path, Json(load, options, rows));
}

}  // namespace

// Otherwise clients and the bare server, which keep nothing of what comes, give
// memory to the system with each message and have it cleared for the next one.
void KeepMemory() {
  constexpr int kBytes = 1 << 30;
  mallopt(M_TRIM_THRESHOLD, kBytes);
  mallopt(M_MMAP_THRESHOLD, kBytes);
}

}  // namespace gemmd::wire

int main(int argc, char** argv) {
  gemmd::cli::DoNotLookForDeadlocks();
  gemmd::wire::KeepMemory();
  absl::SetProgramUsageMessage(
      "measures how fast bytes move through a gemmd daemon, beside a bare gRPC "
      "server");
  absl::ParseCommandLine(argc, argv);
  const std::string serve = absl::GetFlag(FLAGS_serve);
  const absl::Status status =
      serve.empty() ? gemmd::wire::Run()
                    : gemmd::wire::ServeBare(serve, absl::GetFlag(FLAGS_loops));
  if (!status.ok()) {
    absl::FPrintF(stderr, "wire: %s\n", status.ToString());
    return 1;
  }
  return 0;
}
