#include "tests/emulator/machine/scheduler.h"

#include <algorithm>
#include <map>
#include <utility>

namespace gemmd::emulator {
namespace {

constexpr int kWarpgroup = 128;

}  // namespace

Scheduler::Scheduler(uint64_t seed) : random_(seed * 2654435761u + 1) {
  random_.discard(8);
  // Seed 0 leaves threads in order and operations as late as can be.
  constexpr uint32_t kNever = 1u << 30;
  const uint32_t yields[] = {kNever, 4, 16, 64};
  const uint32_t happens[] = {kNever, 2, 16, 256};
  const uint32_t stays[] = {kNever, 64, 1024, 8};
  yields_one_in_ = yields[seed % 4];
  happens_one_in_ = happens[seed / 4 % 4];
  stays_one_in_ = stays[seed % 3];
}

uint32_t Scheduler::Random(uint32_t below) {
  return static_cast<uint32_t>(random_()) % below;
}

void Scheduler::Begin(int threads, std::function<void(int)> body) {
  body_ = std::move(body);
  reasons_.assign(static_cast<size_t>(threads), nullptr);
  for (int i = 0; i < threads; ++i) {
    fibers_.push_back(std::make_unique<Fiber>([this, i] { body_(i); }));
    ready_.push_back(i);
  }
}

bool Scheduler::GoOn() {
  const bool can = !ready_.empty() || !pending_.empty();
  while (!ready_.empty() || !pending_.empty()) {
    if (ready_.empty() || (!pending_.empty() && Random(happens_one_in_) == 0)) {
      Happen();
      continue;
    }
    current_ = TakeReady();
    fibers_[static_cast<size_t>(current_)]->Resume();
  }
  current_ = -1;
  return can;
}

bool Scheduler::ended() const {
  return std::ranges::all_of(fibers_,
                             [](const auto& fiber) { return fiber->ended(); });
}

std::vector<std::string> Scheduler::End() {
  std::vector<std::string> stuck = Stuck();
  fibers_.clear();
  return stuck;
}

// Threads of the favourite warpgroup first, so that roles drift apart.
int Scheduler::TakeReady() {
  size_t at = 0;
  if (Random(stays_one_in_) == 0) favourite_ = static_cast<int>(Random(4));
  if (yields_one_in_ < (1u << 30)) {
    at = Random(static_cast<uint32_t>(ready_.size()));
    for (int tries = 0; tries < 4; ++tries) {
      if (ready_[at] / kWarpgroup == favourite_) break;
      at = Random(static_cast<uint32_t>(ready_.size()));
    }
    std::swap(ready_[at], ready_.back());
    at = ready_.size() - 1;
  }
  const int thread = ready_[at];
  ready_.erase(ready_.begin() + static_cast<ptrdiff_t>(at));
  return thread;
}

void Scheduler::Happen() {
  const size_t at = Random(static_cast<uint32_t>(pending_.size()));
  std::swap(pending_[at], pending_.back());
  const std::function<void()> operation = std::move(pending_.back());
  pending_.pop_back();
  operation();
}

void Scheduler::MayYield() {
  if (Random(yields_one_in_) != 0 || yields_one_in_ >= (1u << 30)) return;
  ready_.push_back(current_);
  fibers_[static_cast<size_t>(current_)]->Pause();
}

void Scheduler::Wait(Waiters& waiters,
                     const std::function<std::string()>& reason) {
  const auto self = static_cast<size_t>(current_);
  waiters.push_back(current_);
  reasons_[self] = &reason;
  fibers_[self]->Pause();
  reasons_[self] = nullptr;
}

void Scheduler::Wake(Waiters& waiters) {
  ready_.insert(ready_.end(), waiters.begin(), waiters.end());
  waiters.clear();
}

void Scheduler::Later(std::function<void()> operation) {
  pending_.push_back(std::move(operation));
}

std::vector<std::string> Scheduler::Stuck() const {
  std::map<std::string, std::vector<int>> by_reason;
  for (size_t i = 0; i < fibers_.size(); ++i) {
    if (fibers_[i]->ended()) continue;
    by_reason[(*reasons_[i])()].push_back(static_cast<int>(i));
  }
  std::vector<std::string> lines;
  for (const auto& [reason, threads] : by_reason) {
    lines.push_back(ThreadRanges(threads) +
                    (threads.size() == 1 ? " waits " : " wait ") + reason);
  }
  return lines;
}

std::string ThreadRanges(const std::vector<int>& threads) {
  std::string text = threads.size() == 1 ? "thread " : "threads ";
  for (size_t i = 0; i < threads.size();) {
    size_t end = i + 1;
    while (end < threads.size() && threads[end] == threads[end - 1] + 1) ++end;
    if (i > 0) text += ", ";
    text += std::to_string(threads[i]);
    if (end - i > 1) text.append("-").append(std::to_string(threads[end - 1]));
    i = end;
  }
  return text;
}

}  // namespace gemmd::emulator
