// Several devices: where requests and tensors go, and what becomes of them when
// a device fails or hangs.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "service/device/lost.h"
#include "tests/service/fake_region.h"
#include "tests/service/gate.h"
#include "tests/service/test_engine.h"

namespace gemmd::engine {
namespace {

using absl::StatusCode;
using testing::Eventually;
using testing::Gate;
using testing::TestEngine;

class DevicesTest : public ::testing::Test {
 protected:
  ~DevicesTest() override { gate_.Open(); }

  void Start(Engine::Options options = {}) {
    engine_ = std::make_unique<TestEngine>(options, hooks_);
  }
  TestEngine& engine() { return *engine_; }

  Gate gate_;
  std::vector<std::shared_ptr<testing::Hooks>> hooks_ = {
      std::make_shared<testing::Hooks>(), std::make_shared<testing::Hooks>()};
  std::unique_ptr<TestEngine> engine_;
};

TEST_F(DevicesTest, TensorsGoWhereMostOfTheQuotaIsLeft) {
  Start({.tensors = {.max_bytes = 1 << 10}});
  std::vector<std::shared_ptr<Tensor>> tensors;
  std::vector<int> on(2);
  for (int i = 0; i < 10; ++i) {
    tensors.push_back(engine().Tensor());
    ++on[tensors.back()->identity().device];
  }
  EXPECT_EQ(on, (std::vector{5, 5}));
}

// A GPU's memory cannot be given back when its context is gone.
TEST_F(DevicesTest, TensorsThatAreLeftGoBeforeTheirDevices) {
  int ended = 0;
  for (const auto& hooks : hooks_) {
    hooks->ended = [&ended](int64_t bytes) {
      ++ended;
      EXPECT_EQ(bytes, 0);
    };
  }
  Start();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(engine().Create({}).Wait().ok());
  engine_.reset();
  EXPECT_EQ(ended, 2);
}

TEST_F(DevicesTest, TensorsGoWhereTheyAreAskedToGo) {
  Start();
  for (int i = 0; i < 4; ++i) {
    const auto tensor = engine().Create({.device = 1}).Wait();
    ASSERT_TRUE(tensor.ok());
    EXPECT_EQ((*tensor)->identity().device, 1);
  }
}

TEST_F(DevicesTest, AFullDeviceLeavesRoomOnTheOther) {
  const jit::MatrixLayout layout = {jit::DataType::kF32, jit::Order::kRowMajor,
                                    16, 32};  // 2 KiB.
  Start({.tensors = {.max_bytes = 3 << 10}});
  const auto first = engine().Create({.layout = layout}).Wait();
  const auto second = engine().Create({.layout = layout}).Wait();
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(second.ok());
  EXPECT_NE((*first)->identity().device, (*second)->identity().device);
  EXPECT_EQ(engine().Create({.layout = layout}).Wait().status().code(),
            StatusCode::kResourceExhausted);
}

TEST_F(DevicesTest, ProductsGoWhereTheLeastWorkIsPredicted) {
  hooks_[0]->multiply = [this](const auto&, const auto&) {
    gate_.Pass();
    return absl::OkStatus();
  };
  Start({.executor = {.lanes = 1}});
  EXPECT_EQ(engine()->ChooseDevice("").value(), 0);
  gate_.Close();
  const auto large = engine().Multiply(TestEngine::Zeros(1000), 0);
  ASSERT_TRUE(gate_.WaitForArrivals(1));
  // Many small products are less work than one large one.
  hooks_[1]->multiply = nullptr;
  EXPECT_EQ(engine()->ChooseDevice("").value(), 1);
}

// Alerts are about devices, not about clients who lose patience or mistake.
TEST_F(DevicesTest, OnlyFailuresThatNoClientCausedAreCounted) {
  absl::Status end;
  hooks_[0]->multiply = [&](const auto&, const auto&) { return end; };
  Start();
  for (const absl::Status& status :
       {absl::CancelledError("gone"), absl::DeadlineExceededError("late"),
        absl::InvalidArgumentError("odd"), absl::InternalError("broken"),
        absl::ResourceExhaustedError("full")}) {
    end = status;
    EXPECT_EQ(engine().Multiply(TestEngine::Zeros(), 0).Wait().status(), end);
  }
  EXPECT_EQ(engine()->served(0).counts.failures, 2);
}

// Whoever gets an error has his memory back.
TEST_F(DevicesTest, AProductThatFailsHasEndedOnItsLane) {
  std::vector<std::string> steps;
  hooks_[0]->multiply = [&](const auto&, const auto&) {
    steps.push_back("multiply");
    return absl::InternalError("no");
  };
  hooks_[0]->synchronize = [&] {
    steps.push_back("wait");
    return absl::OkStatus();
  };
  Start();
  EXPECT_FALSE(engine().Multiply(TestEngine::Zeros(), 0).Wait().ok());
  EXPECT_EQ(steps, (std::vector<std::string>{"multiply", "wait"}));
}

// One of two devices is lost: it fails everything at once, and so is never
// busy. All that comes later goes to the other one.
TEST_F(DevicesTest, ADeviceThatFailsFastIsNotPreferred) {
  hooks_[0]->multiply = [](const auto&, const auto&) {
    return device::LostError("Device lost: it fell off the bus");
  };
  Start();
  int failed = 0;
  for (int i = 0; i < 20; ++i) {
    const auto device = engine()->ChooseDevice("");
    ASSERT_TRUE(device.ok());
    const auto result = engine().Multiply(TestEngine::Zeros(), *device).Wait();
    if (result.ok()) continue;
    EXPECT_EQ(result.status().code(), StatusCode::kUnavailable);
    ++failed;
  }
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(engine()->served(0).counts.failures, 1);
  EXPECT_EQ(engine()->served(0).counts.all.Read().count(), 0);
  EXPECT_EQ(engine()->served(1).counts.failures, 0);
  EXPECT_EQ(engine()->served(1).counts.all.Read().count(), 19);
  EXPECT_EQ(engine()->device_state(0).message(),
            "device fake:0 has failed: Device lost: it fell off the bus");
  EXPECT_TRUE(engine()->device_state(1).ok());
}

TEST_F(DevicesTest, ALostDeviceIsNoticedWhateverItWasDoing) {
  const auto lost = [] { return device::LostError("Device lost: gone"); };
  for (const int step : {0, 1, 2, 3}) {
    hooks_[0] = std::make_shared<testing::Hooks>();
    hooks_[1] = std::make_shared<testing::Hooks>();
    Start();
    const auto tensor = engine().Create({.device = 0}).Wait().value();
    switch (step) {
      case 0:
        hooks_[0]->allocate = lost;
        engine().Create({.device = 0}).Wait().IgnoreError();
        break;
      case 1: {
        hooks_[0]->upload = lost;
        const auto upload = engine()->BeginUpload(tensor).value();
        engine().Send(upload, 1).Wait().IgnoreError();
        break;
      }
      case 2:
        hooks_[0]->download = lost;
        engine().Download(tensor).Wait().IgnoreError();
        break;
      case 3:
        hooks_[0]->load = lost;
        engine().Multiply(TestEngine::Zeros()).Wait().IgnoreError();
        break;
    }
    EXPECT_EQ(engine()->device_state(0).code(), StatusCode::kUnavailable)
        << step;
    EXPECT_EQ(engine()->ChooseDevice("").value(), 1);
    engine_.reset();
  }
}

TEST_F(DevicesTest, WhatAFailedDeviceHasIsUnavailable) {
  Start();
  const auto tensor = engine().Create({.device = 0}).Wait().value();
  engine()->MarkFailed(0, "its probe hangs");
  EXPECT_EQ(engine().Download(tensor).Wait().status().code(),
            StatusCode::kUnavailable);
  EXPECT_EQ(engine()->BeginUpload(tensor).status().code(),
            StatusCode::kUnavailable);
  EXPECT_EQ(engine()
                .Multiply(TestEngine::Copy(tensor, tensor))
                .Wait()
                .status()
                .code(),
            StatusCode::kUnavailable);
  EXPECT_EQ(engine()->ChooseDevice("fake:0").status().code(),
            StatusCode::kUnavailable);
  EXPECT_EQ(engine().Create({.device = 0}).Wait().status().code(),
            StatusCode::kUnavailable);
  // The others go on.
  EXPECT_EQ(engine().Tensor()->identity().device, 1);
  EXPECT_TRUE(engine().Multiply(TestEngine::Zeros(), 1).Wait().ok());
  engine()->MarkFailed(1, "its probe hangs too");
  EXPECT_EQ(engine()->ChooseDevice("").status().code(),
            StatusCode::kUnavailable);
  EXPECT_EQ(engine().Create({}).Wait().status().code(),
            StatusCode::kUnavailable);
}

TEST_F(DevicesTest, AFailedDeviceIsNeverRevived) {
  Start();
  engine()->MarkFailed(0, "first");
  EXPECT_TRUE(engine()->device(0).Probe().ok());
  EXPECT_EQ(engine()->Probe(0).code(), StatusCode::kUnavailable);
  EXPECT_FALSE(engine()->device_state(0).ok());
  engine()->MarkFailed(0, "second");
  EXPECT_EQ(engine()->device_state(0).message(),
            "device fake:0 has failed: first");
}

// Work that never ends, on every lane of a device: its requests are answered,
// those that wait too, and the other device serves.
TEST_F(DevicesTest, ADeviceThatHangsGivesItsRequestsUp) {
  hooks_[0]->multiply = [this](const auto&, const auto&) {
    gate_.Pass();
    return absl::OkStatus();
  };
  Start({.executor = {.lanes = 2, .hang_limit = absl::Milliseconds(50)}});
  ASSERT_TRUE(engine().Multiply(TestEngine::Zeros(), 0).Wait().ok());
  gate_.Close();
  std::vector<TestEngine::MultiplyAnswer> answers;
  for (int i = 0; i < 4; ++i) {
    answers.push_back(engine().Multiply(TestEngine::Zeros(), 0));
  }
  for (auto& answer : answers) {
    EXPECT_EQ(answer.Wait().status().code(), StatusCode::kUnavailable);
  }
  EXPECT_EQ(engine()->ChooseDevice("").value(), 1);
  EXPECT_TRUE(engine().Multiply(TestEngine::Zeros(), 1).Wait().ok());
  gate_.Open();
}

// Who answered sooner would let the client's bytes be freed under the lane.
TEST_F(DevicesTest, BytesThatAHungLaneReadsAreNotGivenBack) {
  hooks_[0]->multiply = [this](const auto&, const auto&) {
    gate_.Pass();
    return absl::OkStatus();
  };
  Start({.executor = {.lanes = 1, .hang_limit = absl::Milliseconds(20)}});
  jit::Problem problem = TestEngine::Problem();
  const std::string bytes(1000, '\0');
  const auto inline_product = [&](std::shared_ptr<const void> owner) {
    Product product = {.problem = problem, .d = {.pitch_bytes = 12}};
    product.a = {.pieces = {absl::string_view(bytes).substr(0, 16)},
                 .pitch_bytes = 8};
    product.b = {.pieces = {absl::string_view(bytes).substr(0, 24)},
                 .pitch_bytes = 6};
    product.bytes = std::move(owner);
    return product;
  };
  ASSERT_TRUE(engine().Multiply(inline_product(nullptr)).Wait().ok());
  gate_.Close();
  auto borrowed = engine().Multiply(inline_product(nullptr));
  ASSERT_TRUE(Eventually([&] { return !engine()->device_state(0).ok(); }));
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_FALSE(borrowed.there());
  gate_.Open();
  EXPECT_TRUE(borrowed.Wait().ok()) << "it came to an end after all";
}

TEST_F(DevicesTest, OwnedBytesDoNotKeepAHungRequest) {
  hooks_[0]->multiply = [this](const auto&, const auto&) {
    gate_.Pass();
    return absl::OkStatus();
  };
  Start({.executor = {.lanes = 1, .hang_limit = absl::Milliseconds(20)}});
  auto owner = std::make_shared<std::string>(1000, '\0');
  Product product = {.problem = TestEngine::Problem(),
                     .d = {.pitch_bytes = 12}};
  product.a = {.pieces = {absl::string_view(*owner).substr(0, 16)},
               .pitch_bytes = 8};
  product.b = {.pieces = {absl::string_view(*owner).substr(0, 24)},
               .pitch_bytes = 6};
  product.bytes = owner;
  gate_.Close();
  auto owned = engine().Multiply(std::move(product));
  EXPECT_EQ(owned.Wait().status().code(), StatusCode::kUnavailable);
  EXPECT_GT(owner.use_count(), 1) << "the lane still reads them";
  gate_.Open();
  EXPECT_TRUE(Eventually([&] { return owner.use_count() == 1; }));
}

// What is written after the answer could be somebody else's by then.
TEST_F(DevicesTest, AHungDownloadToARegionIsNotAnswered) {
  hooks_[0]->download = [this] {
    gate_.Pass();
    return absl::OkStatus();
  };
  Start({.executor = {.lanes = 1, .hang_limit = absl::Milliseconds(20)}});
  const auto tensor = engine().Create({.device = 0}).Wait().value();
  gate_.Close();
  testing::Answer<TensorPart> answer;
  engine()->DownloadTo({std::make_shared<testing::FakeRegion>(4096), 0}, tensor,
                       tensor->layout().width_bytes(), {}, answer.done());
  ASSERT_TRUE(Eventually([&] { return !engine()->device_state(0).ok(); }));
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_FALSE(answer.there());
  gate_.Open();
  EXPECT_TRUE(answer.Wait().ok()) << "it came to an end after all";
}

TEST_F(DevicesTest, ADownloadToARegionThatFailsIsOverWhenThatIsTold) {
  int synchronized = 0;
  hooks_[0]->download = [] { return absl::InternalError("half of it"); };
  hooks_[0]->synchronize = [&] {
    ++synchronized;
    return absl::OkStatus();
  };
  Start({.executor = {.lanes = 1}});
  const auto tensor = engine().Create({.device = 0}).Wait().value();
  synchronized = 0;
  testing::Answer<TensorPart> answer;
  engine()->DownloadTo({std::make_shared<testing::FakeRegion>(4096), 0}, tensor,
                       tensor->layout().width_bytes(), {}, answer.done());
  EXPECT_EQ(answer.Wait().status().message(), "half of it");
  EXPECT_EQ(synchronized, 1);
}

}  // namespace
}  // namespace gemmd::engine
