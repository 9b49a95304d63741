// Progress of a number of steps: a bar that is redrawn on a terminal, plain
// lines elsewhere. An interrupt (Ctrl-C) says how far it came and ends the
// process as interrupts do. One at a time; thread-safe.
#ifndef GEMMD_CLIENTS_WARMUP_PROGRESS_H_
#define GEMMD_CLIENTS_WARMUP_PROGRESS_H_

#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace gemmd::warmup {

class Progress {
 public:
  // `out` must outlive this.
  Progress(std::FILE* out, int steps);
  // Leaves the terminal on a fresh line.
  ~Progress();

  // One more step is done.
  void Step(const std::string& text);
  // A line that stays visible.
  void Note(const std::string& text);
  // The same of what went wrong, on standard error.
  void Fault(const std::string& text);

 private:
  void Print(std::FILE* to, const std::string& text);
  void Draw(const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WaitForInterrupt();

  std::FILE* const out_;
  const int steps_;
  const bool terminal_;
  const absl::Time start_;
  std::mutex mutex_;
  int done_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread interrupts_;
};

// "[###...] 3/26, 0:12 left: text" in at most `columns` columns.
std::string ProgressLine(int done, int steps, absl::Duration elapsed,
                         const std::string& text, size_t columns);

}  // namespace gemmd::warmup

#endif  // GEMMD_CLIENTS_WARMUP_PROGRESS_H_
