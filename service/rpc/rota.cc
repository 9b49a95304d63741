#include "service/rpc/rota.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace gemmd::rpc {
namespace {

constexpr int kCallsOfLoop = 2;

// 0, 4, 2, 6, 1, 5, 3, 7: the bits of 0, 1, 2, ... the other way round.
std::vector<int> FarApart(int loops) {
  std::vector<int> order;
  const int bits = std::bit_width(static_cast<unsigned>(loops - 1));
  for (int i = 0; i < 1 << bits; ++i) {
    int reversed = 0;
    for (int bit = 0; bit < bits; ++bit) {
      reversed |= (i >> bit & 1) << (bits - 1 - bit);
    }
    if (reversed < loops) order.push_back(reversed);
  }
  return order;
}

}  // namespace

Rota::Rota(int loops) : order_(FarApart(loops)), place_(loops), calls_(loops) {
  for (int i = 0; i < loops; ++i) place_[order_[i]] = i;
}

int Rota::LoopsFor(int calls) {
  return std::max(1, (calls + kCallsOfLoop - 1) / kCallsOfLoop);
}

bool Rota::Ask(int loop) {
  std::lock_guard lock(mutex_);
  if (!OnDuty(loop) || asked_[loop]) return false;
  if (leaves_ && loop != last()) {
    held_back_.set(loop);
    return false;
  }
  asked_.set(loop);
  return true;
}

Rota::Loops Rota::Begin(int loop) {
  std::lock_guard lock(mutex_);
  asked_.reset(loop);
  ++calls_[loop];
  peak_ = std::max(peak_, ++running_);
  const int needed = LoopsFor(running_);
  Loops to_ask;
  if (leaves_ && needed < on_duty_ && loop != last()) return to_ask;
  if (leaves_) {  // Or stays.
    leaves_ = false;
    on_duty_ -= needed < on_duty_;
    to_ask = std::exchange(held_back_, {});
  }
  if (needed > on_duty_ && on_duty_ < std::ssize(order_)) {
    ++on_duty_;
    to_ask.set(last());
  }
  return to_ask;
}

void Rota::End(int loop) {
  std::lock_guard lock(mutex_);
  --calls_[loop];
  --running_;
}

bool Rota::MaySleep(int loop) const {
  std::lock_guard lock(mutex_);
  return !OnDuty(loop) && calls_[loop] == 0;
}

void Rota::Sweep() {
  std::lock_guard lock(mutex_);
  leaves_ |= LoopsFor(peak_) < on_duty_;
  peak_ = running_;
}

}  // namespace gemmd::rpc
