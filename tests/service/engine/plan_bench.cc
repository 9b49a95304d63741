// What a request pays before its device work: the time to find a known plan,
// and to plan a new shape of a loaded kernel. Prints microseconds.
//
//   plan_bench [repetitions]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "absl/time/clock.h"
#include "jit/base/status.h"
#include "jit/plan/planner.h"
#include "service/engine/kernel_table.h"
#include "service/host/host_device.h"
#include "tests/service/fake_cache.h"
#include "tests/service/prepare.h"

namespace gemmd {
namespace {

constexpr int kShapes = 1024;

jit::Problem Shape(int i) {
  return {.m = 256 + i % 32 * 129, .n = 512 + i / 32 * 201, .k = 64 + i * 7};
}

// Median and 99th percentile of `measure(i)` over all shapes.
template <typename Measure>
void Report(const char* what, int repetitions, Measure measure) {
  std::vector<double> us;
  for (int round = 0; round < repetitions; ++round) {
    for (int i = 0; i < kShapes; ++i) {
      const int64_t start = absl::GetCurrentTimeNanos();
      measure(i);
      us.push_back((absl::GetCurrentTimeNanos() - start) / 1e3);
    }
  }
  std::sort(us.begin(), us.end());
  std::printf("%-28s p50 %8.2f us  p99 %8.2f us\n", what, us[us.size() / 2],
              us[us.size() * 99 / 100]);
}

void Run(int repetitions) {
  const auto device = host::CreateHostDevice({});
  const auto templates = jit::TemplateLibrary::Embedded();
  testing::FakeCache cache;
  engine::KernelTable kernels(*device, cache, templates);
  for (int i = 0; i < kShapes; ++i) {
    CHECK(testing::Prepare(kernels, Shape(i)).ok());
  }
  Report("known shape", repetitions,
         [&](int i) { CHECK(kernels.Find(Shape(i)) != nullptr); });
  Report("new shape, loaded kernel", 1, [&](int i) {
    jit::Problem problem = Shape(i);
    problem.k += 1;  // Rarely another config, never a known shape.
    CHECK(kernels.Choose(problem).ok());
  });
}

}  // namespace
}  // namespace gemmd

int main(int argc, char** argv) {
  gemmd::Run(argc > 1 ? std::max(1, std::atoi(argv[1])) : 20);
}
