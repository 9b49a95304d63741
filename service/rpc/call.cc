#include "service/rpc/call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/base/steady_time.h"
#include "service/engine/try_again.h"
#include "service/rpc/checksums.h"
#include "service/rpc/status.h"

namespace gemmd::rpc {
namespace {

// After how many milliseconds a call may be tried again, or never, as
// gRPC's own retries understand it:
// https://github.com/grpc/proposal/blob/master/A6-client-retries.md#pushback
constexpr char kPushback[] = "grpc-retry-pushback-ms";

// Of a principal's calls at a time, so many times as many may be answered and
// not over.
constexpr int64_t kAnswered = 8;

}  // namespace

Call::Call(EventLoop& loop, std::string id, Runtime& runtime)
    : loop_(loop),
      id_(std::move(id)),
      runtime_(runtime),
      cancelled_(std::make_shared<std::atomic<bool>>(false)),
      done_(*this),
      finished_(*this),
      stream_(&context_),
      keyed_(runtime.kept_answers),
      counters_(&runtime.counters) {
  context_.AsyncNotifyWhenDone(static_cast<Event*>(&done_));
}

Call::~Call() {
  if (connection_ == nullptr) return;
  ReturnRequest(request_bytes_);
  ReturnResponse(response_bytes_);
  if (tenant_ != nullptr) tenant_->calls.End();
  connection_->CloseCall();
  loop_.Remove(place_);
}

int64_t Call::Open(std::shared_ptr<Connection> connection) {
  connection_ = std::move(connection);
  last_stream_ = connection_->last_stream();
  opened_ = loop_.now();
  place_ = loop_.Add(*this);
  return connection_->OpenCall();
}

absl::StatusOr<identity::Caller> Call::Identify() const {
  const auto authorization = metadata().All("authorization");
  const absl::Time now = absl::Now();
  identity::Credentials credentials = {.authorization = authorization,
                                       .certificate_names = {},
                                       .user = connection_->user()};
  tls::PeerCertificate* const certificate = connection_->certificate();
  if (certificate != nullptr && authorization.empty()) {
    RETURN_IF_ERROR(certificate->Check(runtime_.tls->context(), now));
    credentials.certificate_names = certificate->names();
    if (certificate->names().empty()) {
      return absl::UnauthenticatedError("the client certificate has no name");
    }
  }
  return runtime_.gate->Identify(credentials, now);
}

absl::Status Call::Admit(identity::Access access) {
  if (runtime_.gate == nullptr || access == identity::Access::kOpen) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(identity::Caller caller, Identify());
  principal_ = std::move(caller.principal);
  proof_ = caller.proof;
  access_ = access;
  admitted_ = loop_.now();
  tenant_ = runtime_.TenantOf(principal_->name);
  counters_ = &tenant_->counters;
  connection_->CountFor({tenant_, &tenant_->requests});
  const int64_t most = principal_->max_calls;
  const OwnCalls::Number calls = tenant_->calls.Begin();
  // Who takes no answers has a limit, too.
  const int64_t counted = std::max(calls.unanswered, calls.all / kAnswered);
  if (counted > most && most > 0) {
    metrics().Rejected(Rejection::kCallsOfPrincipal);
    return engine::TryAgainError(absl::StrCat("the principal has ", most,
                                              " calls, its limit (max_calls)"),
                                 kCallsEnd);
  }
  return principal_->Check(access_);
}

void Call::AdmitAgain() {
  if (principal_ == nullptr || admitted_ == loop_.now()) return;
  admitted_ = loop_.now();
  const auto admit = [this]() -> absl::Status {
    ASSIGN_OR_RETURN(identity::Caller caller, Identify());
    // What the call holds and has begun counts for the one who began it.
    if (caller.principal->name != principal_->name) {
      return absl::UnauthenticatedError(
          "what the call showed stands for another principal now");
    }
    principal_ = std::move(caller.principal);
    return principal_->Check(access_);
  };
  if (absl::Status status = admit(); !status.ok()) End(std::move(status));
}

Async<absl::Status> Call::Take(Budget& budget, Budget::Account& account,
                               int64_t bytes, int64_t& held,
                               Rejection without) {
  if (!ended_.ok()) co_return ended_;
  if (bytes == 0) co_return absl::OkStatus();
  const engine::RequestContext context = request_context();
  CO_RETURN_IF_ERROR(context.Check("there was room for it"));
  const absl::Time until =
      std::min(context.deadline, jit::SteadyNow() + runtime_.limits.max_wait);
  Budget::Wait wait(budget, account, bytes, loop_, until, has_tensor_room_);
  WhenGivenUp([&wait] { wait.GiveUp(); });
  absl::Status taken = co_await wait;
  WhenGivenUp(nullptr);
  if (taken.ok()) held += bytes;
  if (!ended_.ok()) co_return ended_;
  CO_RETURN_IF_ERROR(context.Check("there was room for it"));
  if (!taken.ok()) metrics().Rejected(without);
  co_return taken;
}

Async<absl::Status> Call::TakeRequest(int64_t bytes) {
  return Take(connection_->requests(), request_account(), bytes, request_bytes_,
              Rejection::kRequestBudget);
}

bool Call::TryTakeRequest(int64_t bytes) {
  if (bytes > 0 && !connection_->requests().TryTake(request_account(), bytes)) {
    return false;
  }
  request_bytes_ += bytes;
  return true;
}

void Call::ReturnRequest(int64_t bytes) {
  if (bytes == 0) return;
  request_bytes_ -= bytes;
  connection_->requests().Return(request_account(), bytes);
}

void Call::HoldRequests(int64_t bytes) {
  if (bytes > request_bytes_) {
    connection_->requests().Take(request_account(), bytes - request_bytes_);
    request_bytes_ = bytes;
  }
  ReturnRequest(request_bytes_ - bytes);
}

Async<absl::Status> Call::TakeResponse(int64_t bytes) {
  return Take(connection_->responses(), response_account(), bytes,
              response_bytes_, Rejection::kResponseBudget);
}

void Call::ReturnResponse(int64_t bytes) {
  if (bytes == 0) return;
  response_bytes_ -= bytes;
  leaving_ = false;
  connection_->responses().Return(response_account(), bytes);
}

absl::Status Call::ReadMetadata() {
  RETURN_IF_ERROR(metadata().Check());
  checksums_ = metadata().has_checksums();
  keyed_.SetKey(metadata().idempotency_key());
  return absl::OkStatus();
}

Async<absl::StatusOr<std::optional<Message>>> Call::Read(int64_t limit,
                                                         int64_t taken) {
  // What was announced is what may come.
  if (taken > 0) limit = std::min(limit, taken);
  grpc::ByteBuffer buffer;
  connection_->BeginRead(limit, taken);
  const bool read =
      co_await Step(*this, State::kReading, limit,
                    [&](void* tag) { stream_.Read(&buffer, tag); });
  const int64_t size = read ? static_cast<int64_t>(buffer.Length()) : 0;
  // A message that was not announced is there all the same.
  const int64_t held = HeldBytes(size);
  if (held > taken) {
    connection_->requests().Take(request_account(), held - taken);
    request_bytes_ += held - taken;
  }
  connection_->EndRead(limit, taken);
  if (held < taken) ReturnRequest(taken - held);
  if (read) AdmitAgain();
  if (!ended_.ok()) co_return ended_;
  if (!read) co_return std::nullopt;
  if (size > limit) {
    metrics().Rejected(Rejection::kMessageSize);
    co_return absl::ResourceExhaustedError(
        absl::StrCat("the message has ", size, " bytes; allowed: ", limit));
  }
  Message message(buffer);
  if (checksums_) {
    absl::Status whole = co_await TakeChecksum(loop_, message);
    if (!ended_.ok()) co_return ended_;
    if (!whole.ok()) co_return whole;
  }
  CO_RETURN_IF_ERROR(ClaimKey(message));
  co_return std::move(message);
}

absl::Status Call::ClaimKey(const Message& message) {
  ASSIGN_OR_RETURN(const std::optional<std::string> answer,
                   keyed_.Claim(principal_ == nullptr ? absl::string_view()
                                                      : principal_->name,
                                context_.method(), message));
  if (!answer) return absl::OkStatus();
  const grpc::Slice slice(*answer);
  Respond(grpc::ByteBuffer(&slice, 1));
  answered_before_ = true;
  return absl::AbortedError("answered as before");
}

Async<bool> Call::Write(const grpc::ByteBuffer& message) {
  AdmitAgain();
  if (!ended_.ok()) co_return false;
  has_written_ = true;
  const grpc::ByteBuffer* sent = &message;
  std::optional<grpc::ByteBuffer> guarded;
  if (checksums_) {
    guarded = co_await AddChecksum(loop_, message);
    sent = &*guarded;
  }
  Step step(*this, State::kWriting, static_cast<int64_t>(sent->Length()),
            [this, sent](void* tag) { stream_.Write(*sent, tag); });
  const bool written = co_await step;
  co_return written;
}

Async<absl::Status> Call::Conclude(absl::Status status) {
  if (answered_before_) status = absl::OkStatus();
  if (status.ok() || has_written_ || is_carried_out_) {
    const bool is_one_message = status.ok() && !has_written_ && response_;
    keyed_.Keep(is_one_message ? &*response_ : nullptr);
  } else {  // Before its client has the answer, and asks again.
    keyed_.Forget();
  }
  if (status.ok() && checksums_ && response_) {
    response_ = co_await AddChecksum(loop_, *response_);
  }
  co_return status;
}

void Call::Undo() {
  if (undo_ && keyed_.MayUndo()) undo_();
}

void Call::Respond(grpc::ByteBuffer message) {
  // An answer that nobody had to wait for is there already.
  const int64_t held = HeldBytes(static_cast<int64_t>(message.Length()));
  if (held > response_bytes_) {
    connection_->responses().Take(response_account(), held - response_bytes_);
    response_bytes_ = held;
  }
  response_ = std::move(message);
}

engine::RequestContext Call::request_context() const {
  engine::RequestContext context;
  if (connection_ != nullptr) {
    context.connection = connection_->identity();
    context.identity = context.connection;
  }
  if (principal_ != nullptr) {
    context.identity = principal_->name;
    context.is_principal = true;
    context.weight = principal_->weight;
  }
  context.deadline = deadline();
  context.cancelled = cancelled_;
  context.is_repeatable = keyed_.is_claimed();
  return context;
}

absl::Status Call::TrueStatus(const absl::Status& status) const {
  if (!ended_.ok()) return ended_;
  if (!*cancelled_) return status;
  if (jit::SteadyNow() >= request_context().deadline) {
    return absl::DeadlineExceededError("the client's deadline passed");
  }
  // gRPC does not tell who ended it.
  return absl::CancelledError(
      runtime_.health.shutting_down()
          ? "the client has gone, or --drain-timeout was over"
          : "the client has gone");
}

void Call::WhenGivenUp(std::function<void()> wake) {
  wake_ = std::move(wake);
  if (wake_ && *cancelled_) wake_();
}

void Call::StartFinish(const absl::Status& status) {
  if (finishing_) return;
  finishing_ = true;
  // Before its client has the answer.
  if (connection_ != nullptr) connection_->AnswerCall();
  if (tenant_ != nullptr) tenant_->calls.Answer();
  context_.AddTrailingMetadata("gemmd-request-id", id_);
  if (const auto found = metadata().trace()) {
    context_.AddTrailingMetadata(kTraceparent, found->Header());
  }
  if (absl::IsResourceExhausted(status)) {
    const auto after = engine::TryAgainAfter(status);
    context_.AddTrailingMetadata(
        kPushback, after.has_value()
                       ? absl::StrCat(absl::ToInt64Milliseconds(*after))
                       : "-1");
  }
  if (connection_ != nullptr) {
    Enter(State::kWriting,
          response_ ? static_cast<int64_t>(response_->Length()) : 0);
  }
  void* const tag = static_cast<Event*>(&finished_);
  if (status.ok() && response_.has_value()) {
    stream_.WriteAndFinish(*response_, grpc::WriteOptions(), grpc::Status::OK,
                           tag);
  } else {
    stream_.Finish(ToGrpc(status), tag);
  }
}

}  // namespace gemmd::rpc
