// What the host device computes in a second of one core: sums of f64 by
// OpenBLAS, and Hopper's sums with each kind of vectors that the processor has.
// Prints GFLOP/s, the best of three products of m x n x k.
//
//   host_bench [m n k]      default: 512 512 2048
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "jit/base/status.h"
#include "jit/plan/planner.h"
#include "service/host/elements.h"
#include "service/host/gemm.h"
#include "service/host/hopper/add.h"
#include "service/host/hopper/hopper_sums.h"

namespace gemmd::host {
namespace {

constexpr int kRepetitions = 3;

// A matrix of normally distributed elements.
std::string Random(const jit::MatrixLayout& layout, int seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::string bytes(layout.device_bytes(), '\0');
  std::vector<float> line(layout.width());
  for (int64_t i = 0; i < layout.lines(); ++i) {
    for (float& value : line) value = normal(engine);
    Store(layout.type, line.data(), layout.width(),
          bytes.data() + i * layout.pitch_bytes(), 0);
  }
  return bytes;
}

// Of the processor, by this process: others that share it do not count.
int64_t NanosOfCpu() {
  timespec time;
  CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) == 0);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

template <typename Multiply>
double Gflops(const jit::Problem& problem, Multiply multiply) {
  int64_t least_ns = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < kRepetitions; ++i) {
    const int64_t start = NanosOfCpu();
    multiply();
    least_ns = std::min(least_ns, NanosOfCpu() - start);
  }
  return 2.0 * problem.m * problem.n * problem.k / least_ns;
}

void Measure(jit::Problem problem) {
  const std::string a = Random(problem.a(), 1);
  const std::string b = Random(problem.b(), 2);
  std::string d(problem.d().device_bytes(), '\0');
  const GemmOperands operands = {.a = a.data(), .b = b.data(), .d = d.data()};
  const jit::Plan plan = jit::ChoosePlan(problem, {});
  if (!HopperSums::Knows(plan)) return;
  std::printf("%-10s %9.1f", jit::Name(problem.arithmetic()).c_str(),
              Gflops(problem, [&] { Gemm(problem, operands); }));
  for (const Vectors& vectors : KindsOfVectors()) {
    UseVectors(vectors);
    std::printf(" %9.1f",
                Gflops(problem, [&] { Gemm(problem, plan, operands); }));
  }
  UseVectors(KindsOfVectors().front());
  std::printf("\n");
}

void Run(int64_t m, int64_t n, int64_t k) {
  std::printf("%-10s %9s", "GFLOP/s", "f64");
  for (const Vectors& vectors : KindsOfVectors()) {
    std::printf(" %9s", std::string(vectors.name).c_str());
  }
  std::printf("\n");
  for (const jit::Arithmetic& arithmetic : jit::Arithmetics()) {
    jit::Problem problem = {.m = m, .n = n, .k = k};
    problem.SetArithmetic(arithmetic);
    problem.c_type = problem.d_type = jit::DataType::kF32;
    problem.invariant = true;
    if (arithmetic.accumulator == jit::DataType::kS32) continue;
    // Takes the time of a dense one: what is not stored is filled in.
    if (arithmetic.sparse != jit::Sparse::kNone) continue;
    Measure(problem);
  }
}

}  // namespace
}  // namespace gemmd::host

int main(int argc, char** argv) {
  int64_t sizes[] = {512, 512, 2048};
  bool usable = argc == 1 || argc == 4;
  for (int i = 1; usable && i < argc; ++i) {
    usable = absl::SimpleAtoi(argv[i], &sizes[i - 1]) && sizes[i - 1] > 0;
  }
  if (!usable) {
    std::fprintf(stderr, "usage: host_bench [M N K]\n");
    return 2;
  }
  gemmd::host::Run(sizes[0], sizes[1], sizes[2]);
}
