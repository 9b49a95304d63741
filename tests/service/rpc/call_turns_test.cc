#include "service/rpc/call_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "service/rpc/async.h"
#include "tests/service/rpc/test_loop.h"

namespace gemmd::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CallTurnsTest : public ::testing::Test {
 protected:
  // A call of the connection that its name begins with.
  Task Call(std::string name, bool alone = false,
            std::function<void()> begin = nullptr) {
    co_await turns_.Turn(&connections_[name[0] - 'a'], alone);
    begun_.push_back(name);
    if (begin) begin();
  }
  std::vector<std::string> TakeAll() {
    begun_.clear();
    while (!turns_.empty()) turns_.TakeSome();
    return begun_;
  }
  std::vector<std::string> TakeSome() {
    begun_.clear();
    turns_.TakeSome();
    return begun_;
  }

  const char connections_[3] = {};
  CallTurns turns_{absl::ZeroDuration()};  // One at a time.
  std::vector<std::string> begun_;
};

TEST_F(CallTurnsTest, ConnectionsTakeTurns) {
  for (const char* name : {"a1", "a2", "a3", "b1", "c1", "c2"}) Call(name);
  EXPECT_THAT(begun_, IsEmpty());
  EXPECT_THAT(TakeAll(), ElementsAre("a1", "b1", "c1", "a2", "c2", "a3"));
}

TEST_F(CallTurnsTest, WhoComesLaterIsNotBehindAllOfTheOthers) {
  for (const char* name : {"a1", "a2", "a3", "b1", "b2", "b3"}) Call(name);
  EXPECT_THAT(TakeSome(), ElementsAre("a1"));
  Call("c1");
  EXPECT_THAT(TakeAll(), ElementsAre("b1", "a2", "c1", "b2", "a3", "b3"));
}

TEST_F(CallTurnsTest, SomeBeginAtATime) {
  CallTurns turns(absl::InfiniteDuration());
  int begun = 0;
  const auto call = [&](const void* connection) -> Task {
    co_await turns.Turn(connection, false);
    ++begun;
  };
  for (int i = 0; i < 10; ++i) call(&connections_[i % 2]);
  turns.TakeSome();
  EXPECT_EQ(begun, 10);
}

TEST_F(CallTurnsTest, OneThatComesAloneBeginsAtOnceUnlessOthersWait) {
  Call("a1", true);
  EXPECT_THAT(begun_, ElementsAre("a1"));
  Call("a2");
  Call("b1", true);
  EXPECT_THAT(TakeAll(), ElementsAre("a2", "b1"));
}

TEST_F(CallTurnsTest, ACallMayComeWhileOneIsBegun) {
  Call("a1", false, [&] { Call("a3"); });
  Call("a2");
  Call("b1", false, [&] { Call("b2", true); });
  EXPECT_THAT(TakeAll(), ElementsAre("a1", "b1", "a2", "b2", "a3"));
}

// Without anything else that happens, and beside what happens all the time.
TEST_F(CallTurnsTest, ALoopBeginsThem) {
  TestLoop loop(&turns_);
  std::atomic<bool> over = false;
  const auto busy = [&]() -> Task {
    while (!over) co_await Sleep(loop.loop(), absl::ZeroDuration());
  };
  for (const bool beside : {false, true}) {
    std::promise<void> last;
    loop.Post([&] {
      if (beside) {
        for (int i = 0; i < 100; ++i) busy();
      }
      for (int i = 0; i < 200; ++i) Call("a");
      Call("b", false, [&] { last.set_value(); });
    });
    EXPECT_EQ(last.get_future().wait_for(kPatience), std::future_status::ready);
  }
  over = true;
  std::promise<bool> all;
  loop.Post([&] { all.set_value(turns_.empty()); });
  all.get_future().wait();
}

}  // namespace
}  // namespace gemmd::rpc
