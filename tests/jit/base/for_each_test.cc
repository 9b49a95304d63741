#include "jit/base/for_each.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "tests/few_threads.h"

namespace gemmd::jit {
namespace {

void CallsEveryPartOnce(int64_t threads, int64_t count) {
  std::vector<std::atomic<int>> calls(count);
  ForEach(threads, count, [&](int64_t i) { ++calls.at(i); });
  for (const auto& times : calls) EXPECT_EQ(times, 1);
}

TEST(ForEachTest, EveryPartIsCalledOnce) {
  for (const int threads : {1, 2, 7}) {
    for (const int64_t count : {0, 1, 2, 100}) {
      CallsEveryPartOnce(threads, count);
    }
  }
}

TEST(ForEachTest, TheThreadsThatThereAreDoItAll) {
  if (!testing::FewThreads::kPossible) {
    GTEST_SKIP() << "a sanitizer's own memory leaves no room for a limit";
  }
  const testing::FewThreads few;
  CallsEveryPartOnce(1000, 1000);
}

}  // namespace
}  // namespace gemmd::jit
