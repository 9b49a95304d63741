// Probes every device again and again, each on a thread of its own, and says
// which of them work. Waits for no probe: one that takes too long counts as
// failed, and its thread is abandoned at the end. Thread-safe.
#ifndef GEMMD_SERVICE_RPC_HEALTH_MONITOR_H_
#define GEMMD_SERVICE_RPC_HEALTH_MONITOR_H_

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "service/device/device.h"

namespace gemmd::rpc {

class HealthMonitor {
 public:
  // Probes that fail in a row before a device is lost: a CUDA context that has
  // seen a fault never works again, a new process has a new one.
  static constexpr int kMaxFailures = 3;

  struct Options {
    // Between the end of a probe and the next.
    absl::Duration interval = absl::Seconds(10);
    // A probe that takes longer has failed, and has failed once more each time
    // as long passes.
    absl::Duration timeout = absl::Seconds(10);
    // What is asked of a device; null: its own probe. Outlives the process
    // where it hangs.
    std::function<absl::Status(int device)> probe;
    // Told, in order, whenever a device's state has changed: OK, or why it
    // does not work. On a thread of the monitor.
    std::function<void(int device, const absl::Status&)> on_change;
    // Told once, on a thread of the monitor, when no device is left that has
    // not failed kMaxFailures times in a row.
    std::function<void()> on_all_lost;
  };

  // Returns once on_change was told of every device. The devices outlive the
  // monitor and, where a probe hangs, the process.
  HealthMonitor(Options options, const std::vector<device::Device*>& devices);
  // Stops.
  ~HealthMonitor();

  // Tells nobody anything from now on. False when a probe hangs: its device
  // must then not be destroyed.
  bool Stop();

 private:
  struct Shared;

  void Judge();
  // Devices whose state has changed are told; whether all are lost.
  bool TellChanges();

  const Options options_;
  const std::shared_ptr<Shared> shared_;
  bool quiet_ = true;
  std::thread judge_;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_HEALTH_MONITOR_H_
