// Part of Call: how it is ended from outside its handler, by a client that
// leaves, or at a limit of time or bytes.
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/rpc/call.h"
#include "service/rpc/grpc_time.h"

namespace gemmd::rpc {
namespace {

// Less than this in the time of a stall is no progress: pings move bytes too.
constexpr int64_t kProgressBytes = 64 << 10;
// However little stalls, bytes move at least as fast as this.
constexpr int64_t kLeastBytesPerSecond = 1 << 20;
// For a call that was ended to come to its end by itself.
constexpr absl::Duration kEndingTime = absl::Seconds(1);

}  // namespace

// gRPC's own conversion overflows where the system's clock does: a deadline of
// centuries had passed long ago.
absl::Time Call::deadline() const { return ToSteady(context_.raw_deadline()); }

int64_t Call::moved_bytes() const {
  return state_ == State::kReading ? connection_->received()
                                   : connection_->sent();
}

void Call::Enter(State state) {
  state_ = state;
  entered_ = loop_.now();
  progress_ = entered_;
  progress_bytes_ = moved_bytes();
}

void Call::GiveUp() {
  *cancelled_ = true;
  if (wake_) wake_();
}

void Call::End(Rejection why, absl::Status status) {
  if (!ended_.ok()) return;
  metrics().Rejected(why);
  ended_ = std::move(status);
  ended_at_ = loop_.now();
  if (state_ == State::kWriting) {
    context_.TryCancel();  // It waits behind what the client does not take.
  } else {
    StartFinish(ended_);  // Which ends a reading.
  }
  GiveUp();
}

void Call::Sweep() {
  // gRPC ends no call, though it was taken back, whose bytes are on the way and
  // are not taken.
  if ((done_.over || !ended_.ok()) && state_ == State::kWriting) {
    if (moved_bytes() != progress_bytes_ || !connection_->untaken()) {
      progress_ = loop_.now();
      progress_bytes_ = moved_bytes();
    }
    const absl::Duration patience = runtime_.health.shutting_down()
                                        ? runtime_.limits.pressed_stall_timeout
                                        : runtime_.limits.stall_timeout;
    if (loop_.now() - progress_ > patience) connection_->Cut();
  }
  if (done_.over) return;
  if (!ended_.ok()) {
    const bool told = finished_.over;
    if (!told && loop_.now() - ended_at_ > kEndingTime) context_.TryCancel();
    return;
  }
  if (deadline() == absl::InfiniteFuture() &&
      loop_.now() - opened_ > runtime_.limits.max_call_time) {
    return End(Rejection::kCallTime,
               absl::DeadlineExceededError(absl::StrCat(
                   "the call had no deadline and took longer than ",
                   absl::FormatDuration(runtime_.limits.max_call_time),
                   " (--max-call-time)")));
  }
  if (state_ == State::kReading && connection_->overrun()) {
    return End(Rejection::kOverrun,
               absl::ResourceExhaustedError(absl::StrCat(
                   "more bytes of messages have arrived on the connection than "
                   "its calls may read (this one: ",
                   read_limit_, ") or than the daemon has room for (",
                   connection_->requests().held_bytes(), " of ",
                   connection_->requests().total_bytes(), " are held",
                   principal_ != nullptr && principal_->max_in_flight_bytes > 0
                       ? absl::StrCat(", the principal's limit is ",
                                      principal_->max_in_flight_bytes,
                                      " (max_in_flight_bytes)")
                       : "",
                   "). A call that announces the size of its largest message "
                   "in the metadata ",
                   CallMetadata::kAnnouncement,
                   " waits for room before it is read.")));
  }
  if (state_ != State::kBusy) EndIfStalled();
}

void Call::EndIfStalled() {
  const bool reading = state_ == State::kReading;
  // Small messages come at once or not at all, and bytes of other calls of
  // the connection are none of theirs.
  const bool bulk = !reading || read_limit_ > kMaxSmallMessageBytes;
  const auto waited_for = [&] {
    return reading ? connection_->requests().WaitedFor(request_account())
                   : connection_->responses().WaitedFor(response_account());
  };
  // While bytes of the client wait to be read, or a small answer waits though
  // the line is free, it is the daemon that does not keep up.
  const bool ours = reading ? connection_->unread()
                            : response_bytes_ == 0 && !connection_->untaken();
  const bool pressed =
      !ours && ((bulk && waited_for()) || runtime_.crowded() ||
                (has_tensor_room_ && runtime_.engine.tensors().contended()));
  const absl::Duration patience = pressed
                                      ? runtime_.limits.pressed_stall_timeout
                                      : runtime_.limits.stall_timeout;
  if (bulk && moved_bytes() - progress_bytes_ >= kProgressBytes) {
    progress_ = loop_.now();
    progress_bytes_ = moved_bytes();
  }
  const int64_t bytes = reading ? read_limit_ : response_bytes_;
  const absl::Duration longest =
      patience + absl::Seconds(bytes / kLeastBytesPerSecond);
  if (loop_.now() - progress_ <= patience &&
      loop_.now() - entered_ <= longest) {
    return;
  }
  End(Rejection::kStall,
      absl::DeadlineExceededError(
          absl::StrCat(reading ? "the client has sent" : "the client has taken",
                       " nothing for ", absl::FormatDuration(patience),
                       " (--stall-timeout)")));
}

}  // namespace gemmd::rpc
