// One RPC in progress, whatever its method: raw messages in and out, and what
// they cost. Lives on the thread of its loop; its operations are awaited one
// at a time.
//
// A call is ended from outside its handler when it meets a limit of time or
// bytes, its caller is no longer let in, or a drain finds it idle: then what
// the handler awaits fails, and whatever status it returns, the client gets
// that of the ending (call_limits.cc).
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
#include "absl/time/time.h"
#include "service/engine/request_context.h"
#include "service/identity/gate.h"
#include "service/rpc/async.h"
#include "service/rpc/budget.h"
#include "service/rpc/call_metadata.h"
#include "service/rpc/connection.h"
#include "service/rpc/event_loop.h"
#include "service/rpc/keyed_answer.h"
#include "service/rpc/message.h"
#include "service/rpc/runtime.h"

namespace gemmd::rpc {

// What a message of so many bytes takes of a budget: small ones are covered by
// what every call may hold.
inline int64_t HeldBytes(int64_t size) {
  return size > kCallAllowanceBytes ? size : 0;
}

class Call final : public Sweepable {
 public:
  Call(EventLoop& loop, std::string id, Runtime& runtime);
  Call(const Call&) = delete;
  ~Call();

  // co_await: false when the server shuts down; then the call is over.
  auto Accept(grpc::AsyncGenericService& service) {
    return Operation([this, &service](void* tag) {
      service.RequestCall(&context_, &stream_, loop_.queue(), loop_.queue(),
                          tag);
    });
  }
  // After Accept and QueueCall: the call counts for its connection. Returns how
  // many calls of that count, with it.
  int64_t Open(std::shared_ptr<Connection> connection);

  // Lets in who calls, as far as the connection and the metadata prove it, if
  // he may call what needs `access`. From then on what the call holds and does
  // counts for the principal, and each message ends the call if he is not to be
  // let in by what counts at that time, but for an answer that goes with the
  // status: a call of one message each way is judged when it begins and when
  // its message has come.
  // UNAUTHENTICATED, PERMISSION_DENIED; RESOURCE_EXHAUSTED when he has too many
  // calls, which is asked this once.
  absl::Status Admit(identity::Access access);
  // Null: nobody in particular.
  const identity::Principal* principal() const { return principal_.get(); }
  identity::Proof proof() const { return proof_; }
  // Whether it may do what touches others.
  bool may_administer() const {
    return principal_ == nullptr ? runtime_.limits.admin_calls
                                 : principal_->Has(identity::Access::kAdmin);
  }
  Counters& counters() { return *counters_; }

  // Waits until `bytes` of a message that has not been read may be held; so a
  // client that sends before there is room is held up and not refused. They
  // are held until ReturnRequest or the end.
  Async<absl::Status> TakeRequest(int64_t bytes);
  // The same where it needs no waiting.
  bool TryTakeRequest(int64_t bytes);
  void ReturnRequest(int64_t bytes);
  // From now on so many are held, for messages that are there.
  void HoldRequests(int64_t bytes);
  CallMetadata metadata() const { return CallMetadata(context_); }
  // Takes over what the client says of the whole call; fails as its Check.
  absl::Status ReadMetadata();

  // The next message, of at most `limit` bytes, for which `taken` are held
  // already. Afterwards HeldBytes(its size) are. Nothing at the end of the
  // stream, RESOURCE_EXHAUSTED for what is longer, DATA_LOSS for what was
  // damaged on its way. Fails when the call has its answer: that of an earlier
  // one with its idempotency key.
  Async<absl::StatusOr<std::optional<Message>>> Read(int64_t limit,
                                                     int64_t taken);

  // Waits until `bytes` of an answer may be produced. They are held until
  // ReturnResponse or the end.
  Async<absl::Status> TakeResponse(int64_t bytes);
  void ReturnResponse(int64_t bytes);
  // Of all that it can ever take.
  int64_t most_response_bytes() {
    return connection_->responses().MostOf(response_account());
  }
  // All that are held.
  void ReturnResponses() { ReturnResponse(response_bytes_); }

  // False when the client is gone.
  Async<bool> Write(const grpc::ByteBuffer& message);

  // The last message of a successful call, sent together with its status.
  void Respond(grpc::ByteBuffer message);

  // What it asks for has been done, and shows: with an idempotency key it is
  // not done again, whether or not this call gets its answer.
  void NoteCarriedOut() { is_carried_out_ = true; }

  // Whether it has the answer of an earlier one with its idempotency key.
  bool answered_before() const { return answered_before_; }
  // What the call ends with, when its handler has returned `status`.
  Async<absl::Status> Conclude(absl::Status status);

  // While it is true, the call waits for a request that may come or not, and a
  // drain ends it, unless a part of one is here.
  void SetBetweenRequests(bool is_between);

  // From now on the call holds room for a tensor's elements: it is not to stall
  // while others are refused such room.
  void NoteTensorRoom() { has_tensor_room_ = true; }

  // What is to be undone when the answer does not reach the client.
  void IfUndelivered(std::function<void()> undo) { undo_ = std::move(undo); }
  void Undo();

  // Ends the call. co_await: whether the status reached the transport.
  auto Finish(const absl::Status& status) {
    return FinishAwaiter{*this, status};
  }
  // co_await: until gRPC has no more use for the call. After Finish.
  auto Done() { return OnceAwaiter{done_}; }

  // After Done: `status`, or what ended the call before it could be answered.
  // A client that leaves looks to a handler like one that sends nothing.
  absl::Status TrueStatus(const absl::Status& status) const;

  EventLoop& loop() { return loop_; }
  CallMetrics& metrics() { return runtime_.metrics; }
  // Unique in the daemon's life; in logs and in the response's metadata.
  const std::string& id() const { return id_; }
  const std::string& method() const { return context_.method(); }
  // gRPC's name of the connection.
  std::string transport() const { return context_.peer(); }
  std::string peer() const {
    return connection_ == nullptr ? "gone" : connection_->peer();
  }
  Connection& connection() const { return *connection_; }
  engine::RequestContext request_context() const;
  // Calls `wake`, on the loop, when nobody waits for an answer any more: the
  // client has left or its deadline has passed. At once if that is so. Null
  // takes it back.
  void WhenGivenUp(std::function<void()> wake);
  // Why the call was ended; OK while it was not.
  const absl::Status& ended() const { return ended_; }

  void Sweep() override;

 private:
  enum class State { kBusy, kReading, kWriting };

  // Something that happens once.
  struct Once : Event {
    void Complete(bool) override {
      over = true;
      if (awaiting) awaiting.resume();
    }

    bool over = false;
    std::coroutine_handle<> awaiting;
  };
  // Completes when the call is over, which may be by the client's leaving.
  struct DoneEvent final : Once {
    explicit DoneEvent(Call& call) : call(call) {}
    void Complete(bool ok) override {
      if (call.context_.IsCancelled()) call.GiveUp();
      Once::Complete(ok);
    }

    Call& call;
  };
  struct FinishedEvent final : Once {
    explicit FinishedEvent(Call& call) : call(call) {}
    void Complete(bool ok) override {
      call.state_ = State::kBusy;
      Once::Complete(ok);
    }

    Call& call;
  };
  struct OnceAwaiter {
    bool await_ready() const { return event.over; }
    void await_suspend(std::coroutine_handle<> handle) {
      event.awaiting = handle;
    }
    void await_resume() const {}

    Once& event;
  };
  struct FinishAwaiter {
    bool await_ready() {
      call.StartFinish(status);
      return call.finished_.over;
    }
    void await_suspend(std::coroutine_handle<> handle) {
      call.finished_.awaiting = handle;
    }
    void await_resume() const {}

    Call& call;
    const absl::Status& status;
  };
  // An operation that moves bytes: the call says so while it runs.
  template <typename Start>
  class Step final : public Event {
   public:
    Step(Call& call, State state, int64_t bytes, Start start)
        : call_(call), state_(state), bytes_(bytes), start_(std::move(start)) {}
    Step(const Step&) = delete;

    bool await_ready() const { return !call_.ended_.ok(); }
    void await_suspend(std::coroutine_handle<> handle) {
      handle_ = handle;
      call_.Enter(state_, bytes_);
      start_(static_cast<Event*>(this));
    }
    bool await_resume() const { return ok_; }

    void Complete(bool ok) override {
      ok_ = ok;
      call_.state_ = State::kBusy;
      handle_.resume();
    }

   private:
    Call& call_;
    const State state_;
    const int64_t bytes_;
    Start start_;
    std::coroutine_handle<> handle_;
    bool ok_ = false;
  };

  Budget::Account& request_account() {
    return tenant_ == nullptr ? connection_->request_account()
                              : tenant_->requests;
  }
  Budget::Account& response_account() {
    return tenant_ == nullptr ? connection_->response_account()
                              : tenant_->responses;
  }
  // Claims the call's key for the request that begins with `message`. Fails
  // when that has been answered: the call has the answer then.
  absl::Status ClaimKey(const Message& message);
  // InfiniteFuture when there is none.
  absl::Time deadline() const;
  // Bytes in the direction that the call waits for: since it began to wait, no
  // more than these, but for `moved_before_`, have moved for it.
  int64_t moved_bytes() const;
  // Begins to wait for a message of `bytes`, or at most so many.
  void Enter(State state, int64_t bytes);
  void StartFinish(const absl::Status& status);
  // Who calls, by what counts now.
  absl::StatusOr<identity::Caller> Identify() const;
  // Ends the call if who calls is not to be let in any more. Asks once for all
  // messages between two sweeps of the loop.
  void AdmitAgain();
  // Lets the handler stop: nobody waits for its answer.
  void GiveUp();
  void End(absl::Status status);
  // Because of the limit `why`.
  void End(Rejection why, absl::Status status);
  void EndIfDrained();
  void EndIfStalled();
  // Waits for `bytes` of `budget`, which are added to `held`; `without` is what
  // it counts as not to get them.
  Async<absl::Status> Take(Budget& budget, Budget::Account& account,
                           int64_t bytes, int64_t& held, Rejection without);

  EventLoop& loop_;
  const std::string id_;
  Runtime& runtime_;
  const std::shared_ptr<std::atomic<bool>> cancelled_;
  std::function<void()> undo_;  // May be null.
  std::function<void()> wake_;  // May be null.
  DoneEvent done_;
  FinishedEvent finished_;
  bool finishing_ = false;
  bool has_tensor_room_ = false;
  bool between_requests_ = false;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_;
  std::optional<grpc::ByteBuffer> response_;

  bool checksums_ = false;  // Messages end with one.
  KeyedAnswer keyed_;
  bool answered_before_ = false;
  bool has_written_ = false;
  bool is_carried_out_ = false;

  std::shared_ptr<Connection> connection_;
  uint32_t last_stream_ = 0;  // Of the connection; its own, or a later one.
  identity::PrincipalPointer principal_;  // May be null,
  std::shared_ptr<Tenant> tenant_;        // as this then is.
  identity::Proof proof_ = identity::Proof::kNone;
  identity::Access access_ = identity::Access::kOpen;  // What it needs.
  absl::Time admitted_;                                // The last time.
  Counters* counters_;
  EventLoop::Place place_;
  absl::Time opened_;
  absl::Status ended_;
  absl::Time ended_at_;

  State state_ = State::kBusy;
  // What is waited for in it. Messages that leave the same room are one: of
  // each alone, a client could take its time.
  int64_t step_bytes_ = 0;
  absl::Time entered_;
  int64_t moved_before_ = 0;
  bool leaving_ = false;    // The next message leaves the same room.
  absl::Time progress_;     // Of the last bytes that moved in it,
  int64_t progress_bytes_;  // when so many had.
  absl::Time late_;         // Since when it has been too slow.

  int64_t request_bytes_ = 0;  // Held of the two budgets.
  int64_t response_bytes_ = 0;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_CALL_H_
