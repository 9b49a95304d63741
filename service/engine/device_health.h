// Whether a device still works. What failed once stays failed: a CUDA context
// that has seen a fault never works again, and a device that hangs may hold
// anything. Thread-safe.
#ifndef GEMMD_SERVICE_ENGINE_DEVICE_HEALTH_H_
#define GEMMD_SERVICE_ENGINE_DEVICE_HEALTH_H_

#include <atomic>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace gemmd::engine {

class DeviceHealth {
 public:
  explicit DeviceHealth(std::string device) : device_(std::move(device)) {}

  bool failed() const { return failed_.load(std::memory_order_acquire); }

  // True when it was well before. The first reason is kept.
  bool Fail(absl::string_view reason) {
    std::lock_guard lock(mutex_);
    if (failed_) return false;
    reason_ = std::string(reason);
    failed_.store(true, std::memory_order_release);
    return true;
  }

  // UNAVAILABLE with the reason when it has failed.
  absl::Status Check() const {
    if (!failed()) return absl::OkStatus();
    std::lock_guard lock(mutex_);
    return absl::UnavailableError(
        absl::StrCat("device ", device_, " has failed: ", reason_));
  }

 private:
  const std::string device_;
  std::atomic<bool> failed_ = false;
  mutable std::mutex mutex_;
  std::string reason_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_DEVICE_HEALTH_H_
