// One RPC in progress, whatever its method: raw messages in and out. Lives on
// the thread of its loop; its operations are awaited one at a time.
#ifndef GEMMD_SERVICE_RPC_CALL_H_
#define GEMMD_SERVICE_RPC_CALL_H_

#include <grpcpp/generic/async_generic_service.h>

#include <atomic>
#include <coroutine>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "service/engine/request_context.h"
#include "service/rpc/event_loop.h"

namespace gemmd::rpc {

class Call {
 public:
  Call(EventLoop& loop, std::string id);
  Call(const Call&) = delete;

  // co_await: false when the server shuts down; then the call is over.
  auto Accept(grpc::AsyncGenericService& service) {
    return Operation([this, &service](void* tag) {
      service.RequestCall(&context_, &stream_, loop_.queue(), loop_.queue(),
                          tag);
    });
  }
  // co_await: false when the client sends no more, or is gone.
  auto Read(grpc::ByteBuffer& message) {
    return Operation(
        [this, &message](void* tag) { stream_.Read(&message, tag); });
  }
  // co_await: false when the client is gone.
  auto Write(const grpc::ByteBuffer& message) {
    return Operation(
        [this, &message](void* tag) { stream_.Write(message, tag); });
  }

  // The last message of a successful call, sent together with its status.
  void Respond(grpc::ByteBuffer message) { response_ = std::move(message); }

  // Ends the call. co_await: whether the status reached the transport.
  auto Finish(const absl::Status& status) {
    return Operation([this, &status](void* tag) { Finish(status, tag); });
  }

  // co_await: until gRPC has no more use for the call. After Finish.
  auto Done() { return DoneAwaiter{done_}; }

  // After Done: `status`, or what ended the call before it could be answered.
  // A client that leaves looks to a handler like one that sends nothing.
  absl::Status TrueStatus(const absl::Status& status) const;

  EventLoop& loop() { return loop_; }
  // Unique in the daemon's life; in logs and in the response's metadata.
  const std::string& id() const { return id_; }
  const std::string& method() const { return context_.method(); }
  std::string peer() const { return context_.peer(); }
  engine::RequestContext request_context() const;
  // Calls `wake`, on the loop, when nobody waits for an answer any more: the
  // client has left or its deadline has passed. At once if that is so. Null
  // takes it back.
  void WhenGivenUp(std::function<void()> wake);

 private:
  // Completes when the call is over, which may be by the client's leaving.
  struct DoneEvent final : Event {
    explicit DoneEvent(Call& call) : call(call) {}
    void Complete(bool) override {
      if (call.context_.IsCancelled()) call.GiveUp();
      over = true;
      if (awaiting) awaiting.resume();
    }

    Call& call;
    bool over = false;
    std::coroutine_handle<> awaiting;
  };
  struct DoneAwaiter {
    bool await_ready() const { return event.over; }
    void await_suspend(std::coroutine_handle<> handle) {
      event.awaiting = handle;
    }
    void await_resume() const {}

    DoneEvent& event;
  };

  void Finish(const absl::Status& status, void* tag);
  void GiveUp();

  EventLoop& loop_;
  const std::string id_;
  const std::shared_ptr<std::atomic<bool>> cancelled_;
  std::function<void()> wake_;  // May be null.
  DoneEvent done_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_;
  std::optional<grpc::ByteBuffer> response_;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_CALL_H_
