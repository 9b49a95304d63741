#include "service/rpc/connection.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gemmd::rpc {
namespace {

// What a connection holds in any case: pings, headers, settings.
constexpr int64_t kSlackBytes = 256 << 10;
// The budget is asked for more in steps, not for every packet.
constexpr int64_t kStepBytes = 1 << 20;
// What may still arrive before the calls that read have been ended, and what
// those that do not read may keep beside what is theirs.
constexpr int64_t kGraceBytes = 8 << 20;

// Frames that bring nothing are work that flow control does not slow down.
constexpr Allowance::Earnings kIdleFrames = {
    .most = Connection::kMostIdleFrames,
    .per_call = 16,
    .bytes = FrameCounter::kBytesPerIdleFrame,
    .ns = 1'000'000};
// Of a ping beyond those that gRPC permits it makes an error of kilobytes, and
// goes on with the next. Clients that measure their line ping for what they
// are sent.
constexpr Allowance::Earnings kPings = {.most = Connection::kMostPings,
                                        .per_call = 4,
                                        .bytes = 256,
                                        .ns = 100'000'000};
// A call that is reset as soon as it has begun costs its client nothing. gRPC
// runs what a connection brings on a thread that others wait for, until
// nothing more comes. Answers take at least so many bytes each.
constexpr Allowance::Earnings kResets = {.most = Connection::kMostResets,
                                         .per_call = 0,
                                         .bytes = 64,
                                         .ns = 1'000'000};

// Whether what is in a frame of the daemon is looked at.
bool Tells(const Frame& frame) {
  return frame.type == Frame::kGoAway ||
         (frame.type == Frame::kWindow && frame.stream != 0);
}

int64_t NowNs() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

}  // namespace

Connection::Connection(int64_t id, Socket socket, Budget& requests,
                       Budget& responses, CallCount& all_calls,
                       std::function<void()> overrun)
    : Traffic(std::move(socket.tls)),
      identity_(absl::StrCat("connection-", id)),
      peer_(std::move(socket.peer)),
      user_(socket.user),
      fd_(std::move(socket.fd)),
      requests_(requests),
      responses_(responses),
      all_calls_(all_calls),
      on_overrun_(std::move(overrun)),
      last_change_ns_(NowNs()),
      idle_frames_(kIdleFrames, {.ns = last_change_ns_}),
      pings_(kPings, {.ns = last_change_ns_}),
      resets_(kResets, {.ns = last_change_ns_}) {}

Connection::~Connection() {
  std::lock_guard lock(mutex_);
  Shrink(grown_bytes_);
}

void Connection::CountFor(std::shared_ptr<Budget::Account> account) {
  std::lock_guard lock(mutex_);
  if (counted_for_ != nullptr) return;
  requests_.Take(*account, grown_bytes_);
  requests_.Return(request_account_, grown_bytes_);
  counted_for_ = std::move(account);
}

void Connection::QueueCall() {
  used_ = true;
  last_change_ns_ = NowNs();
  waiting_calls_.Take(1);
  ++queued_calls_;
  all_calls_.Queue();
}

int64_t Connection::OpenCall() {
  const OwnCalls::Number calls = calls_.Begin();
  if (calls.all == 1) all_calls_.BecomesBusy();
  --queued_calls_;
  all_calls_.Open();
  return held_to_limits_ ? calls.unanswered : calls.all;
}

void Connection::CloseCall() {
  last_change_ns_ = NowNs();
  if (calls_.End() == 0) all_calls_.BecomesIdle();
  all_calls_.Close();
}

void Connection::BeginRead(int64_t limit, int64_t announced) {
  std::lock_guard lock(mutex_);
  ++reads_;
  readable_bytes_ += limit;
  announced_bytes_ += announced;
  // What had come before is no fault of this call if it is no longer too much.
  if (reads_ == 1 && Missing() <= 0) overrun_ = false;
}

void Connection::EndRead(int64_t limit, int64_t announced) {
  std::lock_guard lock(mutex_);
  --reads_;
  readable_bytes_ -= limit;
  announced_bytes_ -= announced;
  leaving_bytes_ = HasLeft() ? 0 : leaving_bytes_ + limit;
  if (reads_ == 0) overrun_ = false;  // They have ended.
  Shrink(std::clamp<int64_t>(-Missing(), 0, grown_bytes_));
}

// Calls that wait for their turn bring no less than those that have had it.
int64_t Connection::FreeBytes() const {
  const int64_t begun = calls() + queued_calls_ + waiting_calls_.value();
  return kSlackBytes + (begun + 1) * kCallAllowanceBytes;
}

int64_t Connection::Missing() const {
  return half_.counted_bytes() - announced_bytes_ - FreeBytes() - grown_bytes_;
}

void Connection::Shrink(int64_t bytes) {
  if (bytes == 0) return;
  grown_bytes_ -= bytes;
  requests_.Return(grown_account(), bytes);
}

void Connection::Cover() {
  if (HasLeft()) leaving_bytes_ = 0;
  if (unread_.counted_bytes() > FreeBytes() + kGraceBytes) MakeDeaf();
  const int64_t missing = Missing();
  if (missing <= 0) return;
  const int64_t step = (missing + kStepBytes - 1) / kStepBytes * kStepBytes;
  const bool readable =
      half_.bytes() <= readable_bytes_ + leaving_bytes_ + FreeBytes();
  if (readable && !overrun_ && requests_.TryTake(grown_account(), step)) {
    grown_bytes_ += step;
  } else if (missing > kGraceBytes) {
    MakeDeaf();
  } else if (!overrun_.exchange(true)) {
    on_overrun_();
  }
}

bool Connection::Afford(const FrameCounter::Frames& frames) {
  begun_ += frames.calls;
  if (frames.idle == 0) return true;
  const int64_t now_ns = NowNs();
  return idle_frames_.Spend(frames.idle,
                            {begun_, received() + sent(), now_ns}) &&
         pings_.Spend(frames.pings, {begun_, sent(), now_ns}) &&
         resets_.Spend(frames.resets, {begun_, sent(), now_ns});
}

bool Connection::Admit(int64_t begun) {
  if (begun == 0) return true;
  if (std::exchange(emptied_, all_calls_.emptied()) != emptied_) {
    waiting_calls_.Clear();
  }
  const int64_t counted = held_to_limits_ ? calls_.unanswered() : calls();
  const int64_t own = counted + queued_calls_ + waiting_calls_.Add(begun);
  return all_calls_.Begin(begun, own);
}

void Connection::LookAtReceived(absl::Span<const char> bytes) {
  bool malformed = false;
  {
    std::lock_guard lock(mutex_);
    half_.Arrive(bytes);
    unread_.Arrive(bytes);
    received_frames_.Read(
        bytes,
        [this](const Frame& frame) {
          const bool open = half_.IsOpen(frame.stream);
          counter_.Count(frame, open);
          half_.Begin(frame);
          unread_.Begin(frame, open);
        },
        [this](const Frame& frame, absl::Span<const char> part) {
          if (frame.type != Frame::kData) return;
          half_.Data(frame.stream, part);
          unread_.Data(frame.stream, std::ssize(part));
        });
    malformed = half_.malformed();
  }
  held_to_limits_ = counter_.acknowledged();
  const FrameCounter::Frames frames = counter_.Take();
  if (malformed || counter_.endless_headers() || !Afford(frames) ||
      !Admit(frames.calls)) {
    MakeDeaf();
  }
  std::lock_guard lock(mutex_);
  Cover();  // Once the calls that have begun count.
}

void Connection::LookAtSent(absl::Span<const char> bytes) {
  sent_frames_.Read(
      bytes,
      [this](const Frame& frame) {
        if (!frame.ends_stream() && !Tells(frame)) return;
        std::lock_guard lock(mutex_);
        if (frame.ends_stream()) {
          half_.End(frame.stream);
          unread_.End(frame.stream);
        }
        if (frame.type == Frame::kGoAway) half_.BeginGoAway();
        if (frame.type == Frame::kWindow) unread_.BeginWindow();
      },
      [this](const Frame& frame, absl::Span<const char> part) {
        if (!Tells(frame)) return;
        std::lock_guard lock(mutex_);
        if (frame.type == Frame::kGoAway) half_.GoAway(part);
        if (frame.type == Frame::kWindow) unread_.Window(frame.stream, part);
      });
}

uint32_t Connection::last_stream() {
  std::lock_guard lock(mutex_);
  return half_.last_stream();
}

int64_t Connection::half_bytes(uint32_t last) {
  std::lock_guard lock(mutex_);
  return half_.BytesUntil(last);
}

bool Connection::unread() const {
  int bytes = 0;
  return ioctl(fd_.get(), FIONREAD, &bytes) == 0 && bytes > 0;
}

bool Connection::untaken() const {
  int bytes = 0;
  return ioctl(fd_.get(), SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

void Connection::Cut() {
  MakeDeaf();  // What has arrived already is not read either.
  shutdown(fd_.get(), SHUT_RDWR);
}

}  // namespace gemmd::rpc
