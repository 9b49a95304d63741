// Part of Call: how it is ended from outside its handler, by a client that
// leaves, at a limit of time or bytes, or by a drain.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/rpc/call.h"
#include "service/rpc/grpc_time.h"

namespace gemmd::rpc {
namespace {

// Less than this in the time of a stall is no progress: pings move bytes too.
constexpr int64_t kProgressBytes = 64 << 10;
// Besides, bytes move at least as fast as this, from the first one on: what was
// announced is held by whoever trickles, too.
constexpr int64_t kLeastBytesPerSecond = 1 << 20;
// A message that is there, or has left, is no longer seen to move, and the call
// learns of it by its loop.
constexpr absl::Duration kHandingOver = absl::Milliseconds(200);
// For a call that was ended to come to its end by itself.
constexpr absl::Duration kEndingTime = absl::Seconds(1);

}  // namespace

// gRPC's own conversion overflows where the system's clock does: a deadline of
// centuries had passed long ago.
absl::Time Call::deadline() const { return ToSteady(context_.raw_deadline()); }

// gRPC does not tell which stream is the call's, only the connection that it is
// none which began later.
int64_t Call::moved_bytes() const {
  return state_ == State::kReading ? connection_->half_bytes(last_stream_)
                                   : connection_->sent();
}

void Call::Enter(State state, int64_t bytes) {
  const bool goes_on = state == State::kWriting && leaving_;
  state_ = state;
  step_bytes_ = goes_on ? step_bytes_ + bytes : bytes;
  leaving_ = state == State::kWriting && response_bytes_ > 0;
  if (goes_on) return;
  entered_ = loop_.now();
  progress_ = entered_;
  // Of what is read, some may be there already.
  moved_before_ = state == State::kReading ? 0 : connection_->sent();
  progress_bytes_ = moved_before_;
  late_ = absl::InfiniteFuture();
}

void Call::GiveUp() {
  *cancelled_ = true;
  if (wake_) wake_();
}

void Call::End(Rejection why, absl::Status status) {
  if (!ended_.ok()) return;
  metrics().Rejected(why);
  End(std::move(status));
}

void Call::End(absl::Status status) {
  if (!ended_.ok()) return;
  ended_ = std::move(status);
  ended_at_ = loop_.now();
  if (state_ == State::kWriting) {
    context_.TryCancel();  // It waits behind what the client does not take.
  } else {
    StartFinish(ended_);  // Which ends a reading.
  }
  GiveUp();
}

void Call::SetBetweenRequests(bool is_between) {
  between_requests_ = is_between;
  EndIfDrained();
}

void Call::EndIfDrained() {
  // One that is half here is a request that the daemon has let the client send.
  if (between_requests_ && runtime_.health.shutting_down() &&
      connection_->half_bytes(last_stream_) == 0) {
    End(absl::UnavailableError("the daemon is shutting down"));
  }
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
  EndIfDrained();
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
                   step_bytes_, ") or than the daemon has room for (",
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
  const bool bulk = !reading || step_bytes_ > kMaxSmallMessageBytes;
  const auto waited_for = [&] {
    return reading ? connection_->requests().WaitedFor(request_account())
                   : connection_->responses().WaitedFor(response_account());
  };
  // While bytes of the client wait to be read, or a small answer waits though
  // the line is free, it is the daemon that does not keep up.
  const bool ours = reading ? connection_->unread()
                            : response_bytes_ == 0 && !connection_->untaken();
  const bool awaited = !ours && bulk && waited_for();
  const bool pressed =
      awaited ||
      (!ours && (runtime_.crowded() ||
                 (has_tensor_room_ && runtime_.engine.tensors().contended())));
  const absl::Duration patience = pressed
                                      ? runtime_.limits.pressed_stall_timeout
                                      : runtime_.limits.stall_timeout;
  const int64_t moved = moved_bytes();
  if (bulk && moved - progress_bytes_ >= kProgressBytes) {
    progress_ = loop_.now();
    progress_bytes_ = moved;
  }
  // A rate is one of what has begun: silence that was allowed is no arrears.
  if (moved == moved_before_) entered_ = loop_.now();
  // A message of another call is complete.
  progress_bytes_ = std::min(progress_bytes_, moved);
  const int64_t bytes = std::min(step_bytes_, moved - moved_before_);
  absl::Duration longest =
      patience + absl::Seconds(bytes) / kLeastBytesPerSecond;
  // Those who wait are to have its room before they give up. Answers go on from
  // message to message, each of which holds little.
  if (awaited && reading) {
    longest = std::min(longest, runtime_.limits.max_wait / 2);
  }
  if (loop_.now() - progress_ <= patience &&
      loop_.now() - entered_ <= longest) {
    late_ = absl::InfiniteFuture();
    return;
  }
  late_ = std::min(late_, loop_.now());
  if (loop_.now() - late_ < kHandingOver) return;
  const std::string held =
      reading
          ? absl::StrCat(", or has held room that others wait for longer than ",
                         absl::FormatDuration(runtime_.limits.max_wait / 2),
                         " (half of --max-wait; what is sent in chunks holds "
                         "little)")
          : "";
  End(Rejection::kStall,
      absl::DeadlineExceededError(
          absl::StrCat(reading ? "the client has sent" : "the client has taken",
                       " less than 64 KiB in ", absl::FormatDuration(patience),
                       ", or less than 1 MiB a second in all "
                       "(--stall-timeout)",
                       held)));
}

}  // namespace gemmd::rpc
