// What counting costs the calls: nanoseconds of all that is counted for one
// product, by one thread and by several that count the same at once.
//
//   count_bench
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "service/engine/device_counts.h"
#include "service/rpc/call_metrics.h"

namespace gemmd {
namespace {

constexpr int kProducts = 1'000'000;  // Of each thread.

double NanosecondsOfAProduct(int threads) {
  rpc::CallMetrics calls;
  engine::DeviceCounts device;
  const jit::Problem problem = {.m = 64, .n = 64, .k = 64};
  engine::Phases phases;
  phases.upload = absl::Microseconds(3);
  phases.execute = absl::Microseconds(40);
  phases.download = absl::Microseconds(2);
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) {
    all.emplace_back([&] {
      for (int j = 0; j < kProducts; ++j) {
        device.Ran(problem, engine::KernelSource::kLoaded, phases,
                   absl::Microseconds(50));
        calls.Ended("/gemmd.v1.MatmulService/Matmul", identity::Proof::kToken,
                    absl::StatusCode::kOk, absl::Microseconds(90));
      }
    });
  }
  for (std::thread& thread : all) thread.join();
  const auto time = std::chrono::steady_clock::now() - start;
  return std::chrono::duration<double, std::nano>(time).count() / kProducts;
}

}  // namespace
}  // namespace gemmd

int main() {
  for (const int threads : {1, 2, 4}) {
    std::printf("%d threads: %.0f ns a product each\n", threads,
                gemmd::NanosecondsOfAProduct(threads));
  }
}
