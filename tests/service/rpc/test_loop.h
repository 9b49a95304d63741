// An event loop on which tests wait.
#ifndef GEMMD_TESTS_SERVICE_RPC_TEST_LOOP_H_
#define GEMMD_TESTS_SERVICE_RPC_TEST_LOOP_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "service/rpc/async.h"
#include "service/rpc/event_loop.h"

namespace gemmd::rpc {

inline constexpr auto kPatience = std::chrono::seconds(30);

class TestLoop {
 public:
  // `backlog` outlives it; null: without.
  explicit TestLoop(Backlog* backlog = nullptr) {
    grpc::ServerBuilder builder;
    builder.RegisterAsyncGenericService(&service_);
    loop_ = std::make_unique<EventLoop>(builder.AddCompletionQueue(),
                                        absl::ZeroDuration());
    server_ = builder.BuildAndStart();
    if (backlog != nullptr) loop_->Attend(*backlog);
    loop_->Start([this] { Pump(); });
  }
  // After all that waits on it.
  ~TestLoop() {
    Post(nullptr);
    EXPECT_EQ(pumped_.get_future().wait_for(kPatience),
              std::future_status::ready);
    server_->Shutdown();
    loop_.reset();
  }

  EventLoop& loop() { return *loop_; }

  // Has the loop call `work`, or end the pump when that is null. Waits are made
  // where they end, as by calls: what an event passes from thread to thread
  // through gRPC, a sanitizer does not see.
  void Post(std::function<void()> work) {
    std::lock_guard lock(mutex_);
    posted_.push_back(std::move(work));
  }

 private:
  Task Pump() {
    while (true) {
      std::vector<std::function<void()>> works;
      {
        std::lock_guard lock(mutex_);
        works.swap(posted_);
      }
      for (const auto& work : works) {
        if (work == nullptr) {
          pumped_.set_value();
          co_return;
        }
        work();
      }
      co_await Sleep(*loop_, absl::Milliseconds(1));
    }
  }

  std::mutex mutex_;
  std::vector<std::function<void()>> posted_ ABSL_GUARDED_BY(mutex_);
  std::promise<void> pumped_;
  grpc::AsyncGenericService service_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_TESTS_SERVICE_RPC_TEST_LOOP_H_
