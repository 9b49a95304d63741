#include "service/host/parallel.h"

#include <gtest/gtest.h>

namespace gemmd::host {
namespace {

TEST(ParallelTest, SmallProductsTakeOneThreadAndNoneTakesMany) {
  EXPECT_EQ(ThreadsFor(0), 1);
  EXPECT_EQ(ThreadsFor(100), 1);
  EXPECT_GE(ThreadsFor(int64_t{1} << 50), 1);
  // On 17 lanes OpenBLAS has room for that many.
  EXPECT_LE(17 * ThreadsFor(int64_t{1} << 50), 128);
}

}  // namespace
}  // namespace gemmd::host
