// Race results as a table for people and as JSON for machines.
#ifndef GEMMD_TESTS_BENCH_REPORT_H_
#define GEMMD_TESTS_BENCH_REPORT_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "service/device/device.h"
#include "tests/bench/race.h"

namespace gemmd::bench {

struct Environment {
  device::Description device;
  std::string library;  // "cublasLt 13.1.0"; empty without.
  std::string template_digest;
  std::string date;    // ISO 8601, UTC.
  std::string clocks;  // As NVML says; empty when it does not.
  std::map<std::string, double> ceiling_tflops;  // By instruction.
  double elapsed_s = 0;
};

// A problem that could not be timed.
struct Failure {
  std::string problem;
  std::string message;
};

// "bf16 TN 8192x8192x8192", with " -> f32" when D has another type.
std::string KeyOf(const jit::Problem& problem);

// One line for each of our kernels; the fastest is marked.
std::string TableHeader();
std::string TableRows(const RaceResult& result, const Environment& environment);
// Geometric means of the ratios.
std::string Summary(const std::vector<RaceResult>& results);

std::string Json(const std::vector<RaceResult>& results,
                 const std::vector<Failure>& failures,
                 const Environment& environment);

}  // namespace gemmd::bench

#endif  // GEMMD_TESTS_BENCH_REPORT_H_
