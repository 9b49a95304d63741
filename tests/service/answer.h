// Waits for what the engine calls back with.
#ifndef GEMMD_TESTS_SERVICE_ANSWER_H_
#define GEMMD_TESTS_SERVICE_ANSWER_H_

#include <future>
#include <memory>

#include "service/engine/engine.h"
#include "tests/service/gate.h"

namespace gemmd::testing {

template <typename T>
class Answer {
 public:
  engine::Done<T> done() {
    return [promise = promise_](absl::StatusOr<T> result) {
      promise->set_value(std::move(result));
    };
  }
  absl::StatusOr<T> Wait() {
    if (future_.wait_for(kPatience) != std::future_status::ready) {
      return absl::DeadlineExceededError("the test waited for it in vain");
    }
    return future_.get();
  }
  bool there() const {
    return future_.wait_for(std::chrono::seconds(0)) ==
           std::future_status::ready;
  }

 private:
  std::shared_ptr<std::promise<absl::StatusOr<T>>> promise_ =
      std::make_shared<std::promise<absl::StatusOr<T>>>();
  std::future<absl::StatusOr<T>> future_ = promise_->get_future();
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_SERVICE_ANSWER_H_
