// Latencies of a daemon as a client sees them.
#ifndef GEMMD_TESTS_BENCH_LATENCY_MEASURE_H_
#define GEMMD_TESTS_BENCH_LATENCY_MEASURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/cpp/client.h"

namespace gemmd::latency {

// All times in microseconds.
struct RoundTrips {
  int requests = 0;
  double p50_us = 0;
  double p99_us = 0;
  // Medians of what the daemon reports of the same requests.
  double plan_us = 0;  // A memory hit: nothing is compiled.
  double execute_us = 0;
  v1::Execution execution;  // Of the last request.
};

// `requests` products of side^3 bf16 with A, B and D resident, one at a time.
absl::StatusOr<RoundTrips> MeasureResident(client::Client& client,
                                           const std::string& device, int side,
                                           int requests);

// Calls that do nothing on the device: what gRPC and the daemon cost.
absl::StatusOr<RoundTrips> MeasureInfo(client::Client& client, int requests);

// Medians over whole transfers of a tensor of side^2 bf16, sent and fetched.
struct Transfers {
  double up_gb_s = 0;
  double down_gb_s = 0;
};
absl::StatusOr<Transfers> MeasureTransfers(client::Client& client,
                                           const std::string& device, int side,
                                           int transfers);

struct Compile {
  std::string kernel;
  // From the request to the loaded kernel, the daemon's cache without it.
  double prepare_us = 0;
  int64_t compile_ms = 0;  // NVRTC alone, as kept with the kernel.
};

// Compiles the kernel of each problem anew. Evicts it first.
absl::StatusOr<std::vector<Compile>> MeasureCompiles(client::Client& client,
                                                     const std::string& device);

}  // namespace gemmd::latency

#endif  // GEMMD_TESTS_BENCH_LATENCY_MEASURE_H_
