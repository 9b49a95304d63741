// Which loops take calls: as many as the calls at a time need. Loops that wait
// in gRPC poll one set of descriptors together, one of them for all, and for
// each event another one is woken to poll next: a single client waits 25 to 30
// us longer for a call that does nothing where four loops wait and not one (16
// cores). So loops without calls sleep elsewhere. Thread-safe.
//
// A loop asks gRPC for one call at a time, and what it has asked for cannot be
// taken back. So that a loop can leave, the others do not ask until its last
// call has come.
#ifndef GEMMD_SERVICE_RPC_ROTA_H_
#define GEMMD_SERVICE_RPC_ROTA_H_

#include <bitset>
#include <mutex>
#include <vector>

#include "absl/base/thread_annotations.h"

namespace gemmd::rpc {

class Rota {
 public:
  static constexpr int kMostLoops = 64;
  using Loops = std::bitset<kMostLoops>;

  explicit Rota(int loops);

  // Whether `loop` is to ask for a call now. Where it is not, and has not asked
  // for one, it will be among the loops of Begin once it is to.
  bool Ask(int loop);
  // The call has come. Loops that are to ask now.
  Loops Begin(int loop);
  // One of its calls is over.
  void End(int loop);
  // Whether it neither has calls nor will get any until it is to ask.
  bool MaySleep(int loop) const;

  // Several times a second: lets a loop leave that was not needed since.
  void Sweep();

 private:
  // Of calls at a time. The first loop is always on duty.
  static int LoopsFor(int calls);
  int last() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return order_[on_duty_ - 1];
  }
  bool OnDuty(int loop) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return place_[loop] < on_duty_;
  }

  // gRPC gives a call to the first loop that asks, from one on that it drew for
  // the connection: those on duty lie far apart in its order.
  std::vector<int> order_;
  std::vector<int> place_;  // In it.

  mutable std::mutex mutex_;
  int on_duty_ ABSL_GUARDED_BY(mutex_) = 1;      // The first ones of order_.
  bool leaves_ ABSL_GUARDED_BY(mutex_) = false;  // The last of these.
  Loops asked_ ABSL_GUARDED_BY(mutex_);
  Loops held_back_ ABSL_GUARDED_BY(mutex_);
  std::vector<int> calls_ ABSL_GUARDED_BY(mutex_);
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
  int peak_ ABSL_GUARDED_BY(mutex_) = 0;  // Since the last sweep.
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_ROTA_H_
