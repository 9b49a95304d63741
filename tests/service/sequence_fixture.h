// Products in order on one lane of an engine on a fake device, which notes what
// the lane does.
#ifndef GEMMD_TESTS_SERVICE_SEQUENCE_FIXTURE_H_
#define GEMMD_TESTS_SERVICE_SEQUENCE_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "service/engine/sequence.h"
#include "tests/service/gate.h"
#include "tests/service/test_engine.h"

namespace gemmd::testing {

class SequenceTest : public ::testing::Test {
 protected:
  ~SequenceTest() override {
    gate_.Open();
    engine_.cache().Hold(false);
  }

  // Note what lanes do, a letter a step; products wait at the gate.
  std::shared_ptr<testing::Hooks> Hooks() {
    auto hooks = std::make_shared<testing::Hooks>();
    const auto note = [this](char what) {
      std::lock_guard lock(mutex_);
      log_.push_back(what);
      return absl::OkStatus();
    };
    hooks->allocate = [note] { return note('a'); };
    hooks->upload = [note] { return note('u'); };
    hooks->download = [note] { return note('d'); };
    hooks->synchronize = [note] { return note('s'); };
    hooks->multiply = [this, note](const auto&, const auto&) {
      gate_.Pass();
      const int product = ++products_;
      if (product == fails_at_) return absl::InternalError("broken");
      if (product == cancels_at_) *cancelled_ = true;
      return note('m');
    };
    return hooks;
  }
  // What lanes have done since the last call.
  std::string Log() {
    std::lock_guard lock(mutex_);
    return std::exchange(log_, "");
  }

  std::shared_ptr<engine::Tensor> Room() {
    const jit::MatrixLayout layout = TestEngine::Problem().d();
    return engine_->MakeTemporaries({layout}, 0, "").value()[0];
  }
  // A tensor whose elements are all `value`.
  std::shared_ptr<engine::Tensor> Filled(float value) {
    auto tensor = engine_.Tensor();
    auto upload = engine_->BeginUpload(tensor).value();
    EXPECT_TRUE(engine_.Send(upload, value).Wait().ok());
    EXPECT_TRUE(engine_.Finish(upload).Wait().ok());
    return tensor;
  }
  // to = factor * from.
  static engine::Product Scale(std::shared_ptr<engine::Tensor> from,
                               float factor,
                               std::shared_ptr<engine::Tensor> to) {
    engine::Product step = TestEngine::Copy(std::move(from), std::move(to));
    step.problem.beta = factor;
    step.d.pitch_bytes = step.problem.d().width_bytes();
    return step;
  }

  Answer<engine::SequenceResult> Start(engine::Sequence sequence,
                                       engine::RequestContext context = {}) {
    Answer<engine::SequenceResult> answer;
    engine_->RunInOrder(std::move(sequence), 0, std::move(context),
                        answer.done());
    return answer;
  }
  absl::StatusOr<engine::SequenceResult> Run(engine::Sequence sequence) {
    return Start(std::move(sequence)).Wait();
  }

  Gate gate_;
  std::mutex mutex_;
  std::string log_;
  std::atomic<int> products_ = 0;
  std::atomic<int> fails_at_ = 0;
  std::atomic<int> cancels_at_ = 0;
  std::shared_ptr<std::atomic<bool>> cancelled_ =
      std::make_shared<std::atomic<bool>>(false);
  TestEngine engine_{{.executor = {.lanes = 5}}, {Hooks()}};
};

inline float First(device::HostBuffer& buffer) {
  return Get(jit::DataType::kF32, buffer.bytes().data(), 0);
}

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_SERVICE_SEQUENCE_FIXTURE_H_
