// Ends the process when it does not stop by itself in time: threads that hang
// in a device, a disk or a library cannot be stopped in any other way.
#ifndef GEMMD_SERVICE_DAEMON_DRAIN_LIMIT_H_
#define GEMMD_SERVICE_DAEMON_DRAIN_LIMIT_H_

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace gemmd::daemon {

// For a log that is slow, at the end of the process.
inline constexpr absl::Duration kLastLinesTime = absl::Milliseconds(500);

// Without destroying anything, once the last log lines are written.
[[noreturn]] void EndProcess(int exit_code);

class DrainLimit {
 public:
  // Its thread is there from now on: when work has to end, the system may give
  // none.
  DrainLimit();
  // Stopped in time.
  ~DrainLimit();
  DrainLimit(const DrainLimit&) = delete;

  // After `limit` the process ends with `exit_code`, at once. Once.
  void Start(absl::Duration limit, int exit_code);

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<absl::Duration> limit_ ABSL_GUARDED_BY(mutex_);  // Once begun.
  int exit_code_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Last: it uses the rest.
};

}  // namespace gemmd::daemon

#endif  // GEMMD_SERVICE_DAEMON_DRAIN_LIMIT_H_
