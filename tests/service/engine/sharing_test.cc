// Nobody waits for more than he must: not for another one's tensors, large
// transfers or flood of requests. Nor for compiles: sharing_compiles_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "service/engine/cost.h"
#include "tests/service/sharing_fixture.h"

namespace gemmd::engine {
namespace {

using absl::StatusCode;
using testing::Eventually;
using testing::From;
using testing::Gate;
using testing::TestEngine;
using SharingTest = testing::SharingFixture;

// An upload to each of `tensors`, of which all has been sent.
std::vector<testing::Answer<std::monostate>> Overwrite(
    TestEngine& engine, const std::vector<std::shared_ptr<Tensor>>& tensors) {
  std::vector<testing::Answer<std::monostate>> answers;
  for (const auto& tensor : tensors) {
    const auto upload = engine->BeginUpload(tensor).value();
    EXPECT_TRUE(engine.Send(upload, 1).Wait().ok());
    answers.push_back(engine.Finish(upload));
  }
  return answers;
}

// Two lanes, one product that writes a tensor, many that wait for it: the
// second lane serves those who need it not.
TEST_F(SharingTest, WhoWaitsForATensorHoldsNoLane) {
  Start({.executor = {.lanes = 2}});
  const auto contested = engine().Tensor();
  const auto other = engine().Tensor();
  const int before = gate_.arrived();
  HoldProducts();
  auto writer = engine().Multiply(TestEngine::Copy(other, contested));
  ASSERT_TRUE(gate_.WaitForArrivals(before + 1));
  std::vector<TestEngine::MultiplyAnswer> waiting;
  for (int i = 0; i < 5; ++i) {
    waiting.push_back(
        engine().Multiply(TestEngine::Copy(contested, contested)));
  }
  auto free = engine().Multiply(TestEngine::Zeros());
  EXPECT_TRUE(gate_.WaitForArrivals(before + 2)) << "it has found a lane";
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_EQ(gate_.arrived(), before + 2);
  gate_.Open();
  EXPECT_TRUE(writer.Wait().ok());
  EXPECT_TRUE(free.Wait().ok());
  for (auto& answer : waiting) EXPECT_TRUE(answer.Wait().ok());
}

TEST_F(SharingTest, NobodyWritesWhatAProductUsesForWhateverItIs) {
  Start();
  Product product = {.problem = TestEngine::Problem()};
  jit::Problem& problem = product.problem;
  problem.beta = 1;
  problem.epilogue = {.bias = jit::Extent::kRow,
                      .a_scale = jit::Extent::kTensor,
                      .b_scale = jit::Extent::kTensor,
                      .d_scale = true,
                      .writes_auxiliary = true};
  std::vector<std::shared_ptr<Tensor>> used;
  const auto tensor = [&](const jit::MatrixLayout& layout) {
    return used.emplace_back(
        engine().Create({.layout = layout}).Wait().value());
  };
  product.a.tensor = tensor(problem.a());
  product.b.tensor = tensor(problem.b());
  product.c.tensor = tensor(problem.c());
  product.bias.tensor = tensor(problem.bias());
  product.a_scale.tensor = tensor(problem.a_scale());
  product.b_scale.tensor = tensor(problem.b_scale());
  product.d_scale.tensor = tensor(problem.d_scale());
  product.d.tensor = tensor(problem.d());
  product.auxiliary.tensor = tensor(problem.d());
  HoldProducts();
  const int before = gate_.arrived();
  auto answer = engine().Multiply(product);
  ASSERT_TRUE(gate_.WaitForArrivals(before + 1));
  auto written = Overwrite(engine(), used);
  absl::SleepFor(absl::Milliseconds(20));
  for (size_t i = 0; i < written.size(); ++i) {
    EXPECT_FALSE(written[i].there()) << i;
  }
  gate_.Open();
  EXPECT_TRUE(answer.Wait().ok());
  for (auto& one : written) EXPECT_TRUE(one.Wait().ok());
}

TEST_F(SharingTest, NorWhatAGroupUses) {
  Start({.executor = {.lanes = 2}});
  std::vector<std::shared_ptr<Tensor>> used;
  std::vector<Product> products;
  for (int i = 0; i < 2; ++i) {
    used.push_back(engine().Tensor());
    used.push_back(engine().Tensor());
    products.push_back(TestEngine::Copy(used[2 * i], used[2 * i + 1]));
  }
  HoldProducts();
  const int before = gate_.arrived();
  testing::Answer<GroupResult> answer;
  engine()->MultiplyTogether(std::move(products), 0, {}, answer.done());
  ASSERT_TRUE(gate_.WaitForArrivals(before + 1));
  // Who reads a result waits, too.
  auto result = engine().Download(used[1]);
  auto written = Overwrite(engine(), used);
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_FALSE(result.there());
  for (size_t i = 0; i < written.size(); ++i) {
    EXPECT_FALSE(written[i].there()) << i;
  }
  gate_.Open();
  EXPECT_TRUE(answer.Wait().ok());
  EXPECT_TRUE(result.Wait().ok());
  for (auto& one : written) EXPECT_TRUE(one.Wait().ok());
}

TEST_F(SharingTest, WhoGivesUpWaitingForATensorLeavesAtOnce) {
  Start({.executor = {.lanes = 1, .max_queue = 2}});
  const auto contested = engine().Tensor();
  HoldProducts();
  const int before = gate_.arrived();
  auto writer = engine().Multiply(TestEngine::Copy(contested, contested));
  ASSERT_TRUE(gate_.WaitForArrivals(before + 1));
  auto cancelled = std::make_shared<std::atomic<bool>>(false);
  auto gone = engine().Multiply(TestEngine::Copy(contested, contested), 0,
                                {.cancelled = cancelled});
  auto late =
      engine().Multiply(TestEngine::Copy(contested, contested), 0,
                        {.deadline = absl::Now() + absl::Milliseconds(5)});
  *cancelled = true;
  EXPECT_EQ(gone.Wait().status().code(), StatusCode::kCancelled);
  EXPECT_EQ(late.Wait().status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(engine()->waiting(), 0);
  EXPECT_FALSE(writer.there());
  gate_.Open();
  EXPECT_TRUE(writer.Wait().ok());
  // Nobody who has left holds the tensor.
  EXPECT_TRUE(
      engine().Multiply(TestEngine::Copy(contested, contested)).Wait().ok());
}

TEST_F(SharingTest, ReadersDoNotStarveAWriter) {
  Start({.executor = {.lanes = 2}});
  const auto contested = engine().Tensor();
  const auto out = engine().Tensor();
  const auto elsewhere = engine().Tensor();
  HoldProducts();
  const int before = gate_.arrived();
  auto first = engine().Multiply(TestEngine::Copy(contested, out));
  ASSERT_TRUE(gate_.WaitForArrivals(before + 1));
  auto writer = engine().Multiply(TestEngine::Copy(elsewhere, contested));
  // A lane is free for it, and it may read beside the first one; but the
  // writer came before.
  auto reader = engine().Multiply(TestEngine::Copy(contested, elsewhere));
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_EQ(gate_.arrived(), before + 1);
  gate_.Open();
  EXPECT_TRUE(first.Wait().ok());
  EXPECT_TRUE(writer.Wait().ok());
  EXPECT_TRUE(reader.Wait().ok());
}

TEST_F(SharingTest, RequestsThatNobodyWaitsForLeaveTheQueueAtOnce) {
  Start({.executor = {.lanes = 1, .max_queue = 4}});
  HoldProducts();
  const int before = gate_.arrived();
  auto running = engine().Multiply(TestEngine::Zeros());
  ASSERT_TRUE(gate_.WaitForArrivals(before + 1));
  std::vector<TestEngine::MultiplyAnswer> late;
  for (int i = 0; i < 4; ++i) {
    late.push_back(
        engine().Multiply(TestEngine::Zeros(), 0,
                          {.deadline = absl::Now() + absl::Milliseconds(5)}));
  }
  for (auto& answer : late) {
    EXPECT_EQ(answer.Wait().status().code(), StatusCode::kDeadlineExceeded);
  }
  EXPECT_EQ(engine()->waiting(), 0);
  auto next = engine().Multiply(TestEngine::Zeros());
  EXPECT_FALSE(running.there()) << "the lane had no part in it";
  gate_.Open();
  EXPECT_TRUE(next.Wait().ok());
}

// One lane and its own clock, which a product advances by what it costs. A
// flood of large products and a modest client of small ones, which sends the
// next one with each answer, get the same share of it.
TEST_F(SharingTest, AFloodAndAModestClientShareTheDeviceByCost) {
  struct Clock {
    std::mutex mutex;
    double flood = 0;
    double modest = 0;
  } clock;
  const auto flood_product = TestEngine::Zeros(1 << 12);
  const auto modest_product = TestEngine::Zeros(1 << 9);
  hooks_->multiply = [&](const jit::Problem& problem, const jit::Plan& plan) {
    gate_.Pass();
    std::lock_guard lock(clock.mutex);
    Product product = {.problem = problem};
    (problem.m == flood_product.problem.m ? clock.flood : clock.modest) +=
        ProductCost(plan.predicted_cycles, product);
    return absl::OkStatus();
  };
  Start({.executor = {.lanes = 1, .max_queue = 64}});
  for (const Product& product : {flood_product, modest_product}) {
    ASSERT_TRUE(engine().Multiply(product).Wait().ok());
  }
  clock.flood = clock.modest = 0;

  // Both keep so many waiting; the flood asks first.
  std::atomic<int> left = 600;
  std::atomic<int> ended = 0;
  std::atomic<int> begun = 0;
  std::function<void(const Product&, const std::string&)> send =
      [&](const Product& product, const std::string& identity) {
        if (left-- <= 0) return;
        ++begun;
        engine()->Multiply(product, 0, From(identity),
                           [&, product, identity](const auto& result) {
                             EXPECT_TRUE(result.ok()) << result.status();
                             send(product, identity);
                             ++ended;
                           });
      };
  HoldProducts();
  for (int i = 0; i < 40; ++i) send(flood_product, "flood");
  for (int i = 0; i < 4; ++i) send(modest_product, "modest");
  gate_.Open();
  EXPECT_TRUE(Eventually([&] { return left <= 0; }));
  {
    std::lock_guard lock(clock.mutex);
    EXPECT_NEAR(clock.flood / clock.modest, 1, 0.2);
  }
  EXPECT_TRUE(Eventually([&] { return ended == begun; }));
}

TEST_F(SharingTest, AFloodDoesNotCrowdAModestClientOut) {
  Start({.executor = {.lanes = 1, .max_queue = 8}});
  HoldProducts();
  std::vector<TestEngine::MultiplyAnswer> flood;
  for (int i = 0; i < 50; ++i) {
    flood.push_back(engine().Multiply(TestEngine::Zeros(), 0, From("flood")));
  }
  auto modest = engine().Multiply(TestEngine::Zeros(), 0, From("modest"));
  gate_.Open();
  EXPECT_TRUE(modest.Wait().ok());
  int served = 0;
  for (auto& answer : flood) served += answer.Wait().ok();
  EXPECT_GE(served, 7);
}

TEST_F(SharingTest, LargeCreationsDoNotHoldUpProducts) {
  Gate clearing;
  hooks_->clear = [&](int64_t) {
    clearing.Pass();
    return absl::OkStatus();
  };
  Start({.executor = {.lanes = 2}});
  clearing.Close();
  const int before = clearing.arrived();
  auto one = engine().Create({});
  auto two = engine().Create({});
  ASSERT_TRUE(clearing.WaitForArrivals(before + 2));
  EXPECT_TRUE(engine().Multiply(TestEngine::Zeros()).Wait().ok());
  EXPECT_FALSE(one.there());
  clearing.Open();
  EXPECT_TRUE(one.Wait().ok());
  EXPECT_TRUE(two.Wait().ok());
}

// What is cleared at a time is bounded, and a small one comes in between.
TEST_F(SharingTest, LargeCreationsTakeTurnsWithOtherTransfers) {
  std::atomic<int64_t> most = 0;
  std::atomic<int> times = 0;
  Gate clearing;
  hooks_->clear = [&](int64_t bytes) {
    most = std::max<int64_t>(most, bytes);
    ++times;
    clearing.Pass();
    return absl::OkStatus();
  };
  engine_ =
      std::make_unique<TestEngine>(Engine::Options{.executor = {.lanes = 1}},
                                   std::vector{hooks_}, int64_t{1} << 30);
  clearing.Close();
  auto large =
      engine().Create({.layout = {jit::DataType::kF32, jit::Order::kRowMajor,
                                  1 << 13, 1 << 13}},
                      From("large"));
  ASSERT_TRUE(clearing.WaitForArrivals(1));
  auto small = engine().Create({}, From("small"));
  clearing.Open();
  EXPECT_TRUE(small.Wait().ok());
  EXPECT_TRUE(large.Wait().ok());
  EXPECT_EQ(most, 64 << 20);
  EXPECT_EQ(times, 5);
}

TEST_F(SharingTest, ProductsDoNotHoldUpTransfers) {
  Start({.executor = {.lanes = 1, .max_queue = 2}});
  const auto tensor = engine().Tensor();
  HoldProducts();
  std::vector<TestEngine::MultiplyAnswer> held;
  for (int i = 0; i < 3; ++i) {
    held.push_back(engine().Multiply(TestEngine::Zeros()));
  }
  EXPECT_TRUE(engine().Create({}).Wait().ok());
  auto upload = engine()->BeginUpload(tensor).value();
  EXPECT_TRUE(engine().Send(upload, 1).Wait().ok());
  EXPECT_TRUE(engine().Finish(upload).Wait().ok());
  EXPECT_TRUE(engine().Download(tensor).Wait().ok());
  gate_.Open();
}

// Who lists kernels a hundred times at once does not keep others waiting for
// their one look. A thread of the two is held, so that there is one order.
TEST_F(SharingTest, BackgroundWorkIsServedInTurn) {
  Start();
  std::vector<std::string> order;
  std::vector<std::unique_ptr<testing::Answer<int>>> answers;
  const auto ask = [&](const std::string& identity, Gate& gate) {
    answers.push_back(std::make_unique<testing::Answer<int>>());
    engine()->InBackground<int>(
        identity,
        [&, identity]() -> absl::StatusOr<int> {
          gate.Pass();
          if (&gate == &gate_) order.push_back(identity);
          return 7;
        },
        answers.back()->done());
  };
  Gate held;
  held.Close();
  ask("held", held);
  ASSERT_TRUE(held.WaitForArrivals(1));
  gate_.Close();
  const int before = gate_.arrived();
  for (int i = 0; i < 20; ++i) ask("many", gate_);
  ASSERT_TRUE(gate_.WaitForArrivals(before + 1)) << "both threads are busy";
  ask("one", gate_);
  gate_.Open();
  for (size_t i = 1; i < answers.size(); ++i) {
    EXPECT_TRUE(answers[i]->Wait().ok());
  }
  held.Open();
  EXPECT_TRUE(answers[0]->Wait().ok());
  const auto place = std::find(order.begin(), order.end(), "one");
  EXPECT_LE(place - order.begin(), 2);
}

}  // namespace
}  // namespace gemmd::engine
