#include "service/rpc/call.h"

#include <utility>

#include "absl/time/clock.h"
#include "service/rpc/status.h"

namespace gemmd::rpc {

Call::Call(EventLoop& loop, std::string id)
    : loop_(loop),
      id_(std::move(id)),
      cancelled_(std::make_shared<std::atomic<bool>>(false)),
      done_(*this),
      stream_(&context_) {
  context_.AsyncNotifyWhenDone(static_cast<Event*>(&done_));
}

engine::RequestContext Call::request_context() const {
  engine::RequestContext context;
  context.identity = peer();
  const auto deadline = context_.deadline();
  if (deadline != std::chrono::system_clock::time_point::max()) {
    context.deadline = absl::FromChrono(deadline);
  }
  context.cancelled = cancelled_;
  return context;
}

absl::Status Call::TrueStatus(const absl::Status& status) const {
  if (!*cancelled_ || absl::IsCancelled(status)) return status;
  if (absl::Now() >= request_context().deadline) {
    return absl::DeadlineExceededError("the client's deadline passed");
  }
  return absl::CancelledError("the client has gone");
}

void Call::WhenGivenUp(std::function<void()> wake) {
  wake_ = std::move(wake);
  if (wake_ && *cancelled_) wake_();
}

void Call::GiveUp() {
  *cancelled_ = true;
  if (wake_) wake_();
}

void Call::Finish(const absl::Status& status, void* tag) {
  context_.AddTrailingMetadata("gemmd-request-id", id_);
  if (status.ok() && response_.has_value()) {
    stream_.WriteAndFinish(*response_, grpc::WriteOptions(), grpc::Status::OK,
                           tag);
  } else {
    stream_.Finish(ToGrpc(status), tag);
  }
}

}  // namespace gemmd::rpc
