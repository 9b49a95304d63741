// How many frames of a kind a client may send: some for each call that it
// begins, for what moves and for the time that passes, saved up to a limit.
// Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_ALLOWANCE_H_
#define GEMMD_SERVICE_RPC_ALLOWANCE_H_

#include <algorithm>
#include <cstdint>

namespace gemmd::rpc {

class Allowance {
 public:
  // Earned: so many for a call, one for so many bytes, one for so long.
  struct Earnings {
    int64_t most;  // That can be saved; there from the start.
    int64_t per_call;
    int64_t bytes;
    int64_t ns;
  };
  // What has happened up to now.
  struct Sums {
    int64_t calls = 0;
    int64_t bytes = 0;
    int64_t ns = 0;  // Of a steady clock.
  };

  Allowance(const Earnings& earnings, const Sums& start)
      : earnings_(earnings), balance_(earnings.most), paid_(start) {}

  // False when `frames` more are too many.
  bool Spend(int64_t frames, const Sums& now) {
    balance_ += (now.calls - paid_.calls) * earnings_.per_call;
    paid_.calls = now.calls;
    balance_ += Whole(now.bytes, earnings_.bytes, paid_.bytes);
    balance_ += Whole(now.ns, earnings_.ns, paid_.ns);
    balance_ -= frames;
    if (balance_ < 0) return false;
    balance_ = std::min(balance_, earnings_.most);
    return true;
  }

 private:
  // The units between `paid` and `now`; what is left is paid later.
  static int64_t Whole(int64_t now, int64_t unit, int64_t& paid) {
    const int64_t units = (now - paid) / unit;
    paid += units * unit;
    return units;
  }

  const Earnings earnings_;
  int64_t balance_;
  Sums paid_;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_ALLOWANCE_H_
