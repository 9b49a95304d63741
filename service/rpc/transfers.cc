#include "service/rpc/transfers.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "jit/base/steady_time.h"
#include "service/rpc/grpc_time.h"

namespace gemmd::rpc {
namespace {

std::string Text(device::LineRange lines) {
  return absl::StrCat("lines ", lines.first, " to ",
                      lines.first + lines.count - 1);
}

// The first lines of `all` that are in none of `parts`, which ascend.
device::LineRange FirstGap(const std::vector<device::LineRange>& parts,
                           int64_t all) {
  int64_t next = 0;
  for (const device::LineRange& part : parts) {
    if (part.first > next) return {next, part.first - next};
    next = part.first + part.count;
  }
  return {next, all - next};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transfers::Part>> Transfers::Join(
    const Name& name, device::LineRange lines, absl::Time now,
    absl::FunctionRef<absl::StatusOr<Upload>()> begin) {
  std::lock_guard lock(mutex_);
  Forget(now);
  std::shared_ptr<Transfer> transfer;
  Upload upload;
  if (const auto found = transfers_.find(name); found != transfers_.end()) {
    transfer = found->second;
    if (transfer->end) {
      return absl::AbortedError(absl::StrCat(
          "the transfer had ended when its part of ", Text(lines), " came",
          transfer->end->ok() ? "" : ": ", transfer->end->message()));
    }
    upload = transfer->upload.lock();
  } else {
    ASSIGN_OR_RETURN(upload, begin());
    transfer = std::make_shared<Transfer>(name);
    transfer->upload = upload;
    transfer->lines = upload->layout.lines();
    transfers_[name] = transfer;
  }
  std::vector<device::LineRange>& parts = transfer->parts;
  if (parts.size() >= kMostParts) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the transfer has ", parts.size(), " parts; the limit is ",
                     kMostParts));
  }
  const auto after = std::ranges::upper_bound(parts, lines.first, {},
                                              &device::LineRange::first);
  const auto overlaps = [&](const device::LineRange& other) {
    return other.first < lines.first + lines.count &&
           lines.first < other.first + other.count;
  };
  for (auto near = after == parts.begin() ? after : after - 1;
       near != parts.end() && near <= after; ++near) {
    if (!overlaps(*near)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("header.part.lines is ", Text(lines),
                     "; another part of the transfer has ", Text(*near),
                     "; allowed: every line once"));
  }
  parts.insert(after, lines);
  ++transfer->receiving;
  transfer->progress = now;
  return std::make_unique<Part>(*this, std::move(transfer), std::move(upload),
                                lines);
}

size_t Transfers::open() const {
  std::lock_guard lock(mutex_);
  return transfers_.size() - ended_.size();
}

size_t Transfers::remembered() const {
  std::lock_guard lock(mutex_);
  return ended_.size();
}

void Transfers::End(Transfer& transfer, absl::Status status, absl::Time now) {
  transfer.end = std::move(status);
  ended_.emplace_back(transfer.name, now);
  // Under the lock, which Complete takes before a wait may be destroyed.
  for (Wait* wait : transfer.waiting) wait->alarm_.Cancel();
  Forget(now);
}

void Transfers::Forget(absl::Time now) {
  while (!ended_.empty() && (ended_.size() > kMostEnded ||
                             now - ended_.front().second > kRemembered)) {
    transfers_.erase(ended_.front().first);
    ended_.pop_front();
  }
}

Transfers::Part::~Part() {
  std::lock_guard lock(transfers_.mutex_);
  if (transfer_->end) return;
  // What is being finished does not need the others any more.
  if (transfer_->landed_lines == transfer_->lines && !finishes_) return;
  transfers_.End(*transfer_,
                 absl::AbortedError(absl::StrCat(
                     "the stream of ", Text(lines_),
                     " ended before the transfer was complete: it is dropped")),
                 jit::SteadyNow());
}

absl::Status Transfers::Part::Check() const {
  std::lock_guard lock(transfers_.mutex_);
  return transfer_->end.value_or(absl::OkStatus());
}

bool Transfers::Part::Land(absl::Time now) {
  std::lock_guard lock(transfers_.mutex_);
  if (transfer_->end) return false;
  --transfer_->receiving;
  transfer_->landed_lines += lines_.count;
  transfer_->progress = now;
  finishes_ = transfer_->landed_lines == transfer_->lines;
  return finishes_;
}

void Transfers::Part::Finish(absl::Status status) {
  // The call was given up: that is the end of its part, not of what others ask.
  if (absl::IsCancelled(status) || absl::IsDeadlineExceeded(status)) return;
  std::lock_guard lock(transfers_.mutex_);
  transfers_.End(*transfer_, std::move(status), jit::SteadyNow());
}

void Transfers::Part::EndIfOverdue(absl::Time now, absl::Duration limit) {
  std::lock_guard lock(transfers_.mutex_);
  if (transfer_->end || transfer_->receiving > 0 ||
      transfer_->landed_lines == transfer_->lines ||
      now - transfer_->progress < limit) {
    return;
  }
  transfers_.End(
      *transfer_,
      absl::AbortedError(absl::StrCat(
          Text(FirstGap(transfer_->parts, transfer_->lines)),
          " of the transfer lack, and no stream has brought any for ",
          absl::FormatDuration(limit), ": it is dropped")),
      now);
}

void Transfers::Wait::await_suspend(std::coroutine_handle<> handle) {
  handle_ = handle;
  std::lock_guard lock(part_.transfers_.mutex_);
  const absl::Duration time =
      part_.transfer_->end ? absl::ZeroDuration() : time_;
  alarm_.Set(loop_.queue(), After(time), static_cast<Event*>(this));
  part_.transfer_->waiting.push_back(this);
}

void Transfers::Wait::Complete(bool) {
  {
    std::lock_guard lock(part_.transfers_.mutex_);
    std::erase(part_.transfer_->waiting, this);
  }
  handle_.resume();
}

std::optional<absl::Status> Transfers::Wait::await_resume() {
  std::lock_guard lock(part_.transfers_.mutex_);
  return part_.transfer_->end;
}

}  // namespace gemmd::rpc
