#include "service/host/hopper/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace gemmd::host {
namespace {

TEST(ParallelTest, EveryPartIsCalledOnce) {
  for (const int threads : {1, 2, 7}) {
    for (const int64_t count : {0, 1, 2, 100}) {
      std::vector<std::atomic<int>> calls(count);
      ForEach(threads, count, [&](int64_t i) { ++calls.at(i); });
      for (const auto& times : calls) EXPECT_EQ(times, 1);
    }
  }
}

TEST(ParallelTest, ThereIsAThread) { EXPECT_GE(Threads(), 1); }

}  // namespace
}  // namespace gemmd::host
