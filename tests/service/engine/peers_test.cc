// Two devices: products that read tensors of the other one.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "tests/integration/eventually.h"
#include "tests/service/gate.h"
#include "tests/service/test_engine.h"

namespace gemmd::engine {
namespace {

using absl::StatusCode;
using testing::Eventually;
using testing::Gate;
using testing::TestEngine;

constexpr jit::MatrixLayout kLayout = {jit::DataType::kF32,
                                       jit::Order::kRowMajor, 2, 3};
const int64_t kBytes = kLayout.device_bytes();

class PeersTest : public ::testing::Test {
 protected:
  ~PeersTest() override { gate_.Open(); }

  void Start(Engine::Options options = {}) {
    for (const auto& hooks : hooks_) {
      hooks->copy_from_peer = [this] {
        ++copies_;
        return copied_;
      };
    }
    engine_ = std::make_unique<TestEngine>(options, hooks_);
  }
  // Those of device 0, at the gate. Before Start.
  void HoldProductsUp() {
    hooks_[0]->multiply = [this](const auto&, const auto&) {
      gate_.Pass();
      return absl::OkStatus();
    };
  }
  TestEngine& engine() { return *engine_; }

  std::shared_ptr<Tensor> On(int device, float value = 0) {
    auto tensor = engine().Create({.device = device}).Wait().value();
    if (value != 0) Set(tensor, value);
    return tensor;
  }
  void Set(const std::shared_ptr<Tensor>& tensor, float value) {
    const auto upload = engine()->BeginUpload(tensor).value();
    ASSERT_TRUE(engine().Send(upload, value).Wait().ok());
    ASSERT_TRUE(engine().Finish(upload).Wait().ok());
  }
  // Copies `from` to a new tensor of `device`: what that holds.
  std::vector<float> Read(const std::shared_ptr<Tensor>& from, int device) {
    const auto to = On(device);
    const auto result =
        engine().Multiply(TestEngine::Copy(from, to), device).Wait();
    EXPECT_TRUE(result.ok()) << result.status();
    if (result.ok()) last_copies_ = result->execution.paths.copies;
    return engine().Elements(to);
  }
  static std::vector<float> All(float value) {
    return std::vector<float>(6, value);
  }

  Gate gate_;
  std::atomic<int> copies_ = 0;
  int last_copies_ = 0;  // That the last product told of.
  absl::Status copied_;
  std::vector<std::shared_ptr<testing::Hooks>> hooks_ = {
      std::make_shared<testing::Hooks>(), std::make_shared<testing::Hooks>()};
  std::unique_ptr<TestEngine> engine_;
};

TEST_F(PeersTest, ATensorIsCopiedOnceForEachOfItsVersions) {
  Start();
  const auto tensor = On(0, 7);
  EXPECT_EQ(Read(tensor, 1), All(7));
  EXPECT_EQ(last_copies_, 1);
  EXPECT_EQ(Read(tensor, 1), All(7));
  EXPECT_EQ(last_copies_, 0);
  EXPECT_EQ(copies_, 1);
  EXPECT_EQ(Read(tensor, 0), All(7)) << "where it is at home";
  EXPECT_EQ(copies_, 1);
  Set(tensor, 8);
  EXPECT_EQ(Read(tensor, 1), All(8));
  EXPECT_EQ(copies_, 2);
  ASSERT_TRUE(
      engine().Multiply(TestEngine::Copy(On(0, 9), tensor), 0).Wait().ok());
  EXPECT_EQ(Read(tensor, 1), All(9));
  EXPECT_EQ(copies_, 3);
}

TEST_F(PeersTest, ACopyCountsAndGoesWithItsTensorOrWhenItIsWritten) {
  Start();
  auto tensor = On(0, 7);
  auto to = On(1);
  const int64_t used = engine()->tensors().bytes(1);
  const auto copy = [&] {
    return engine().Multiply(TestEngine::Copy(tensor, to), 1).Wait().ok();
  };
  ASSERT_TRUE(copy());
  EXPECT_EQ(engine()->tensors().bytes(1), used + kBytes);
  // Whoever read it may have been answered before it let go.
  const auto gone = [&] { return engine()->tensors().bytes(1) == used; };
  Set(tensor, 8);
  EXPECT_TRUE(Eventually(gone));
  ASSERT_TRUE(copy());
  EXPECT_EQ(engine()->tensors().bytes(1), used + kBytes);
  ASSERT_TRUE(engine()->tensors().Delete(tensor->identity().handle).ok());
  tensor.reset();
  EXPECT_TRUE(Eventually(gone));
}

TEST_F(PeersTest, ACopyMakesRoomForATensor) {
  Start({.tensors = {.max_bytes = 3 * kBytes}});
  const auto tensor = On(0, 7);
  const auto first = On(1);
  ASSERT_TRUE(
      engine().Multiply(TestEngine::Copy(tensor, first), 1).Wait().ok());
  EXPECT_EQ(engine()->tensors().bytes(1), 2 * kBytes);
  const auto second = On(1);
  const auto third = engine().Create({.device = 1}).Wait();
  EXPECT_TRUE(third.ok()) << third.status();
  EXPECT_EQ(engine()->tensors().bytes(1), 3 * kBytes);
  // Nothing is left for a copy: it lives as long as the product.
  for (int i = 2; i < 4; ++i) {
    ASSERT_TRUE(
        engine().Multiply(TestEngine::Copy(tensor, second), 1).Wait().ok());
    EXPECT_EQ(engine().Elements(second), All(7));
    EXPECT_EQ(copies_, i);
  }
}

TEST_F(PeersTest, WhoReadsFromFarWaitsForWhoWrites) {
  HoldProductsUp();
  Start();
  const auto tensor = On(0, 1);
  const auto source = On(0, 5);
  const auto to = On(1);
  gate_.Close();
  auto write = engine().Multiply(TestEngine::Copy(source, tensor), 0);
  ASSERT_TRUE(gate_.WaitForArrivals(1));
  auto read = engine().Multiply(TestEngine::Copy(tensor, to), 1);
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_FALSE(read.there());
  EXPECT_EQ(copies_, 0);
  gate_.Open();
  ASSERT_TRUE(write.Wait().ok());
  ASSERT_TRUE(read.Wait().ok());
  EXPECT_EQ(engine().Elements(to), All(5));
}

TEST_F(PeersTest, ManyReadersShareACopy) {
  Start({.executor = {.lanes = 4}});
  const auto tensor = On(0, 3);
  std::vector<std::shared_ptr<Tensor>> to;
  std::vector<TestEngine::MultiplyAnswer> answers;
  for (int i = 0; i < 32; ++i) {
    to.push_back(On(i % 2));
    answers.push_back(
        engine().Multiply(TestEngine::Copy(tensor, to.back()), i % 2));
  }
  for (auto& answer : answers) EXPECT_TRUE(answer.Wait().ok());
  for (const auto& each : to) EXPECT_EQ(engine().Elements(each), All(3));
  EXPECT_EQ(copies_, 1);
}

TEST_F(PeersTest, AFailedHomeMakesItsTensorsUnavailable) {
  Start();
  const auto tensor = On(0, 7);
  EXPECT_EQ(Read(tensor, 1), All(7));
  engine()->MarkFailed(0, "its probe hangs");
  const auto result =
      engine().Multiply(TestEngine::Copy(tensor, On(1)), 1).Wait();
  EXPECT_EQ(result.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(result.status().message(),
            "device fake:0 has failed: its probe hangs");
  EXPECT_TRUE(engine()->device_state(1).ok());
}

// Who waits for a tensor of a device that hangs would wait for ever.
TEST_F(PeersTest, WhoWaitsForAHomeThatFailsIsGivenUp) {
  HoldProductsUp();
  Start();
  const auto tensor = On(0, 1);
  const auto source = On(0, 5);
  gate_.Close();
  auto write = engine().Multiply(TestEngine::Copy(source, tensor), 0);
  ASSERT_TRUE(gate_.WaitForArrivals(1));
  auto read = engine().Multiply(TestEngine::Copy(tensor, On(1)), 1);
  engine()->MarkFailed(0, "its probe hangs");
  EXPECT_EQ(read.Wait().status().code(), StatusCode::kUnavailable);
  gate_.Open();
}

TEST_F(PeersTest, ACopyThatFailsIsTriedAgainByTheNext) {
  Start();
  const auto tensor = On(0, 7);
  const auto to = On(1);
  copied_ = absl::UnavailableError("cuMemcpyPeerAsync: no");
  EXPECT_EQ(engine().Multiply(TestEngine::Copy(tensor, to), 1).Wait().status(),
            copied_);
  EXPECT_TRUE(engine()->device_state(1).ok()) << "it is not lost";
  copied_ = absl::OkStatus();
  ASSERT_TRUE(engine().Multiply(TestEngine::Copy(tensor, to), 1).Wait().ok());
  EXPECT_EQ(engine().Elements(to), All(7));
}

TEST_F(PeersTest, ProductsStayAtHomeUntilItIsWorthACopy) {
  HoldProductsUp();
  Start({.executor = {.lanes = 1}});
  const std::vector<std::shared_ptr<Tensor>> tensors = {On(1, 7), On(0, 7)};
  const auto nearest = [&](std::vector<std::shared_ptr<Tensor>> read) {
    return engine()->ChooseDevice(read).value();
  };
  EXPECT_EQ(nearest({}), 0);
  EXPECT_EQ(nearest({tensors[0]}), 1);
  EXPECT_EQ(nearest({tensors[1]}), 0);
  EXPECT_EQ(nearest({tensors[0], tensors[1]}), 1);
  EXPECT_EQ(nearest({tensors[1], tensors[0]}), 0);
  gate_.Close();
  const auto large = engine().Multiply(TestEngine::Zeros(1000), 0);
  ASSERT_TRUE(gate_.WaitForArrivals(1));
  EXPECT_EQ(nearest({tensors[1]}), 1) << "home is busy";
  engine()->MarkFailed(1, "gone");
  EXPECT_EQ(nearest({tensors[1]}), 0);
}

TEST_F(PeersTest, ProductsStayAtHomeWhereThereIsNoRoomForACopy) {
  HoldProductsUp();
  Start({.executor = {.lanes = 1}, .tensors = {.max_bytes = kBytes}});
  const auto tensor = On(0);
  const auto other = On(1);
  gate_.Close();
  const auto large = engine().Multiply(TestEngine::Zeros(1000), 0);
  ASSERT_TRUE(gate_.WaitForArrivals(1));
  const std::vector<std::shared_ptr<Tensor>> read = {tensor};
  EXPECT_EQ(engine()->ChooseDevice(read).value(), 0);
}

}  // namespace
}  // namespace gemmd::engine
