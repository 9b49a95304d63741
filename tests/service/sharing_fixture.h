// An engine on one fake device whose products wait at a gate when a test says
// so.
#ifndef GEMMD_TESTS_SERVICE_SHARING_FIXTURE_H_
#define GEMMD_TESTS_SERVICE_SHARING_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/service/gate.h"
#include "tests/service/test_engine.h"

namespace gemmd::testing {

class SharingFixture : public ::testing::Test {
 protected:
  ~SharingFixture() override {
    gate_.Open();
    if (engine_ != nullptr) engine_->cache().Hold(false);
  }

  void Start(gemmd::engine::Engine::Options options = {}) {
    engine_ = std::make_unique<TestEngine>(options, std::vector{hooks_});
    // The kernel of every product here but where it is said otherwise.
    ASSERT_TRUE(engine().Multiply(TestEngine::Zeros()).Wait().ok());
    const auto tensor = engine().Tensor();
    ASSERT_TRUE(
        engine().Multiply(TestEngine::Copy(tensor, tensor)).Wait().ok());
  }
  TestEngine& engine() { return *engine_; }

  // From now on products wait at the gate, on their lanes.
  void HoldProducts() { gate_.Close(); }

  Gate gate_;
  std::shared_ptr<Hooks> hooks_ = [this] {
    auto hooks = std::make_shared<Hooks>();
    hooks->multiply = [this](const auto&, const auto&) {
      gate_.Pass();
      return absl::OkStatus();
    };
    return hooks;
  }();
  std::unique_ptr<TestEngine> engine_;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_SERVICE_SHARING_FIXTURE_H_
