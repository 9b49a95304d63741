// One way to move bytes, by so many clients: how fast the bare server is, and
// how fast the daemon, in turn.
#ifndef GEMMD_TESTS_BENCH_WIRE_CONTEST_H_
#define GEMMD_TESTS_BENCH_WIRE_CONTEST_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/bench/wire/way.h"

namespace gemmd::wire {

struct ContestOptions {
  std::string daemon;  // Addresses.
  std::string bare;
  int rounds = 1;
  absl::Duration duration;  // Of each contender in each round, at least.
};

// Gigabytes of matrices a second, both directions together, of all clients:
// each round's.
struct Rates {
  std::vector<double> bare;    // The bare client at the bare server.
  std::vector<double> daemon;  // The same at the daemon.
  std::vector<double> client;  // The C++ client at the daemon.
};

struct Row {
  Way way;
  int clients = 0;
  Rates rates;
};

// Each client has a thread and connections of its own.
absl::StatusOr<Row> RunContest(Way way, int clients, const Load& load,
                               const ContestOptions& options);

}  // namespace gemmd::wire

#endif  // GEMMD_TESTS_BENCH_WIRE_CONTEST_H_
