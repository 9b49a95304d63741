#include "jit/base/task_queue.h"

#include <gtest/gtest.h>

#include <system_error>

#include "tests/few_threads.h"

namespace gemmd::jit {
namespace {

TEST(TaskQueueTest, WithoutItsThreadsItIsNotMadeAndNothingElseHappens) {
  if (!testing::FewThreads::kPossible) {
    GTEST_SKIP() << "a sanitizer's own memory leaves no room for a limit";
  }
  const testing::FewThreads few;
  EXPECT_THROW(TaskQueue(1000), std::system_error);
}

}  // namespace
}  // namespace gemmd::jit
