// Progress of a number of steps: a bar that is redrawn on a terminal, plain
// lines elsewhere. Thread-safe.
#ifndef GEMMD_CLIENTS_WARMUP_PROGRESS_H_
#define GEMMD_CLIENTS_WARMUP_PROGRESS_H_

#include <cstdio>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"

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

 private:
  void Draw(const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::FILE* const out_;
  const int steps_;
  const bool terminal_;
  std::mutex mutex_;
  int done_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gemmd::warmup

#endif  // GEMMD_CLIENTS_WARMUP_PROGRESS_H_
