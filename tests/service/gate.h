// Holds threads up where a test wants them. Every wait is bounded.
#ifndef GEMMD_TESTS_SERVICE_GATE_H_
#define GEMMD_TESTS_SERVICE_GATE_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace gemmd::testing {

// Far longer than anything takes that works.
inline constexpr std::chrono::seconds kPatience(60);

// True when `condition` comes true while somebody is patient.
inline bool Eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Open at first. Thread-safe.
class Gate {
 public:
  // Returns once the gate is open, or patience is at an end.
  void Pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait_for(lock, kPatience, [this] { return open_; });
  }
  void Close() {
    std::lock_guard lock(mutex_);
    open_ = false;
  }
  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  // True when `count` have come to the gate since it was made.
  bool WaitForArrivals(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience,
                             [&] { return arrived_ >= count; });
  }
  int arrived() {
    std::lock_guard lock(mutex_);
    return arrived_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  int arrived_ = 0;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_SERVICE_GATE_H_
