#include "service/host/parallel.h"

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

TEST(ParallelTest, SmallProductsTakeOneThreadAndNoneTakesMany) {
  EXPECT_EQ(ThreadsFor(0), 1);
  EXPECT_EQ(ThreadsFor(100), 1);
  EXPECT_GE(ThreadsFor(int64_t{1} << 50), 1);
  // On 17 lanes OpenBLAS has room for that many.
  EXPECT_LE(17 * ThreadsFor(int64_t{1} << 50), 128);
}

}  // namespace
}  // namespace gemmd::host
