// Sends requests as `gemmctl load` is asked to, and keeps what became of them.
#ifndef GEMMD_CLIENTS_GEMMCTL_LOAD_RUN_H_
#define GEMMD_CLIENTS_GEMMCTL_LOAD_RUN_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "clients/cpp/client.h"
#include "clients/gemmctl/histogram.h"
#include "clients/gemmctl/load_work.h"

namespace gemmd::gemmctl {

struct LoadOptions {
  // Requests a second, at random times: an open loop, where latencies count
  // from when a request was due. 0: the next one when one has ended.
  double rate = 0;
  int connections = 1;
  int concurrency = 1;  // Requests at a time, of all connections together.
  absl::Duration duration = absl::Seconds(10);
  absl::Duration warmup = absl::Seconds(1);   // Before, and not counted.
  absl::Duration timeout = absl::Minutes(1);  // Of a request.
};

// Where the time of a request went: before it was sent, at the daemon (as
// v1::Phases has it), and the rest: on the wire, in the client, in queues
// between them.
enum Phase {
  kLate,
  kQueue,
  kPlan,
  kCompile,
  kUpload,
  kExecute,
  kDownload,
  kRest,
  kPhases
};
extern const char* const kPhaseNames[kPhases];

struct Failures {
  int64_t count = 0;
  std::string first;  // What one of them said.
};

// Of requests that were due in the measured time.
struct Tally {
  Histogram latency;  // Of those that succeeded.
  std::array<Histogram, kPhases> phases;
  std::map<absl::StatusCode, Failures> failures;

  void Merge(const Tally& other);
};

struct LoadResult {
  std::vector<Tally> by_work;
  absl::Duration elapsed;  // From the first to the last of them.
  int64_t unsent = 0;      // That were due, while all in flight were others.
};

// One after the other of `works`, which are for options.concurrency workers, in
// turn. An error when nothing could be sent.
absl::StatusOr<LoadResult> RunLoad(
    client::Client& client, const std::vector<std::unique_ptr<Work>>& works,
    const LoadOptions& options);

}  // namespace gemmd::gemmctl

#endif  // GEMMD_CLIENTS_GEMMCTL_LOAD_RUN_H_
