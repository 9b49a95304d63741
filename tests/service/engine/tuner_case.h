// A tuner of devices whose times a test makes up.
#ifndef GEMMD_TESTS_SERVICE_ENGINE_TUNER_CASE_H_
#define GEMMD_TESTS_SERVICE_ENGINE_TUNER_CASE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "jit/plan/planner.h"
#include "jit/problem/problem_line.h"
#include "service/engine/tuner.h"
#include "tests/service/test_engine.h"

namespace gemmd::engine {

inline jit::Problem Parse(const std::string& line) {
  return *jit::ParseProblemLine(line);
}
inline jit::Problem Square() { return Parse("bf16 TN 2048 2048 2048"); }
// Its best plans sum in several different parts.
inline jit::Problem LongSum() { return Parse("bf16 TN 256 256 8192"); }

inline std::string NameOf(const jit::Plan& plan) {
  return jit::KernelName(plan.family, plan.config);
}

class TunerTest : public ::testing::Test {
 protected:
  void Start(Tuner::Options options = {.share_percent = 0}, int devices = 1) {
    Engine::Options engine;
    engine.tuner = options;
    engine.tuning = tuning_;
    hooks_->time = [this](const jit::Plan& plan) -> absl::StatusOr<double> {
      ++samples_;
      std::lock_guard lock(mutex_);
      if (!time_error_.ok()) return time_error_;
      timed_.insert(NameOf(plan));
      timed_splits_.insert(plan.splits);
      if (slow_sample_) absl::SleepFor(absl::Milliseconds(2));
      const auto found = times_.find({NameOf(plan), plan.splits});
      return found == times_.end() ? 100.0 : found->second;
    };
    engine_.emplace(
        engine, std::vector<std::shared_ptr<testing::Hooks>>(devices, hooks_));
  }
  // What products with `plan` take from now on; others take 100 us.
  void Takes(const jit::Plan& plan, double us) {
    std::lock_guard lock(mutex_);
    times_[{NameOf(plan), plan.splits}] = us;
  }
  absl::StatusOr<TuningOutcome> Tune(TuningOrder order) {
    return engine_->Tune(std::move(order)).Wait();
  }
  // The kernel that a request for `problem` gets, and its parts of k.
  Execution Serve(const jit::Problem& problem, int device = 0) {
    testing::Answer<Execution> answer;
    (*engine_)->Prepare(problem, device, {}, answer.done());
    const auto execution = answer.Wait();
    EXPECT_TRUE(execution.ok()) << execution.status();
    return execution.value_or(Execution());
  }
  std::optional<jit::TuningRecord> Record(const jit::Problem& problem) {
    return tuning_->Find(problem, (*engine_)->device(0).description().product);
  }
  std::set<std::string> timed() {
    std::lock_guard lock(mutex_);
    return timed_;
  }

  const std::shared_ptr<testing::Hooks> hooks_ =
      std::make_shared<testing::Hooks>();
  jit::TuningTable table_{{}, "digest"};
  jit::TuningTable* tuning_ = &table_;
  std::atomic<int> samples_ = 0;
  std::mutex mutex_;
  std::map<std::pair<std::string, int>, double> times_;
  std::set<std::string> timed_;
  std::set<int> timed_splits_;
  absl::Status time_error_;
  bool slow_sample_ = false;
  std::optional<testing::TestEngine> engine_;  // Last: it uses the rest.
};

}  // namespace gemmd::engine

#endif  // GEMMD_TESTS_SERVICE_ENGINE_TUNER_CASE_H_
