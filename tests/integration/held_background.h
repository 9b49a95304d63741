// Keeps all threads of an engine's background busy while a test wants it.
#ifndef GEMMD_TESTS_INTEGRATION_HELD_BACKGROUND_H_
#define GEMMD_TESTS_INTEGRATION_HELD_BACKGROUND_H_

#include <gtest/gtest.h>

#include "service/engine/engine.h"
#include "tests/service/answer.h"
#include "tests/service/gate.h"

namespace gemmd::testing {

class HeldBackground {
 public:
  // Once; until Release, or the end of this.
  void Hold(engine::Engine& engine) {
    gate_.Close();
    for (auto& answer : held_) {
      engine.InBackground<int>(
          "other",
          [this]() -> absl::StatusOr<int> {
            gate_.Pass();
            return 0;
          },
          answer.done());
    }
    ASSERT_TRUE(gate_.WaitForArrivals(kThreads));
  }
  void Release() { gate_.Open(); }
  ~HeldBackground() {
    Release();
    if (gate_.arrived() == 0) return;
    for (auto& answer : held_) EXPECT_TRUE(answer.Wait().ok());
  }

 private:
  static constexpr int kThreads = 2;

  Gate gate_;
  Answer<int> held_[kThreads];
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_INTEGRATION_HELD_BACKGROUND_H_
