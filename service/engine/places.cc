#include "service/engine/places.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/engine/cost.h"
#include "service/engine/try_again.h"
#include "service/engine/waiter.h"

namespace gemmd::engine {

Places::Place& Places::Place::operator=(Place&& other) noexcept {
  if (this == &other) return *this;
  GiveBack();
  places_ = std::exchange(other.places_, nullptr);
  line_ = other.line_;
  at_ = other.at_;
  cost_ = other.cost_;
  return *this;
}

void Places::Place::GiveBack() {
  if (places_ == nullptr) return;
  Waiters gone;  // Destroyed after the lock.
  std::lock_guard lock(places_->mutex_);
  gone.splice(gone.end(), line_->waiters, at_);
  if (line_->waiters.empty()) places_->lines_.erase(*line_->identity);
  --places_->taken_;
  places_->cost_ -= cost_;
  places_ = nullptr;
}

Places::~Places() {
  GiveUpAll(absl::UnavailableError("the daemon is shutting down"));
}

absl::StatusOr<Places::Place> Places::Take(std::shared_ptr<Waiter> waiter,
                                           Entry entry,
                                           std::shared_ptr<Waiter>& displaced) {
  const std::string& identity = waiter->context().identity;
  std::lock_guard lock(mutex_);
  if (entry == Entry::kIfFree && taken_ >= limit_) {
    ++refused_;  // This one, or the one that it displaces.
    const auto own = lines_.find(identity);
    const size_t held = own == lines_.end() ? 0 : own->second.waiters.size();
    const Line* longest = Longest();
    if (longest == nullptr || longest->waiters.size() <= held + 1) {
      return TryAgainError(
          absl::StrCat(where_, " has ", taken_,
                       " requests waiting; the limit is ", limit_),
          QuarterDone());
    }
    displaced = longest->waiters.back();
  }
  const auto line = lines_.try_emplace(identity).first;
  line->second.identity = &line->first;
  Place place;
  place.cost_ = waiter->cost();
  place.line_ = &line->second;
  place.at_ = line->second.waiters.insert(line->second.waiters.end(),
                                          std::move(waiter));
  place.places_ = this;
  ++taken_;
  cost_ += place.cost_;
  return place;
}

absl::Status Places::Displaced() const {
  std::lock_guard lock(mutex_);
  return TryAgainError(
      absl::StrCat(
          where_, " has ", limit_,
          " requests waiting, its limit, and most of them come from this "
          "client"),
      QuarterDone());
}

absl::Duration Places::QuarterDone() const {
  return absl::Nanoseconds(static_cast<double>(cost_) / 4 / kCyclesPerNs);
}

Places::Line* Places::Longest() {
  const auto longest = std::ranges::max_element(
      lines_, std::less<>(),
      [](const auto& entry) { return entry.second.waiters.size(); });
  return longest == lines_.end() ? nullptr : &longest->second;
}

void Places::Sweep() {
  std::vector<std::pair<std::shared_ptr<Waiter>, absl::Status>> dead;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [identity, line] : lines_) {
      for (const auto& waiter : line.waiters) {
        absl::Status why = waiter->Check(step_);
        if (!why.ok()) dead.emplace_back(waiter, std::move(why));
      }
    }
  }
  for (const auto& [waiter, why] : dead) waiter->GiveUp(why);
}

void Places::GiveUpAll(const absl::Status& why) {
  std::vector<std::shared_ptr<Waiter>> all;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [identity, line] : lines_) {
      all.insert(all.end(), line.waiters.begin(), line.waiters.end());
    }
  }
  for (const auto& waiter : all) waiter->GiveUp(why);
}

int64_t Places::taken() const {
  std::lock_guard lock(mutex_);
  return taken_;
}

int64_t Places::taken_by(const std::string& identity) const {
  std::lock_guard lock(mutex_);
  const auto line = lines_.find(identity);
  return line == lines_.end()
             ? 0
             : static_cast<int64_t>(line->second.waiters.size());
}

int64_t Places::refused() const {
  std::lock_guard lock(mutex_);
  return refused_;
}

int64_t Places::cost() const {
  std::lock_guard lock(mutex_);
  return cost_;
}

}  // namespace gemmd::engine
