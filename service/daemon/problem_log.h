// A file of the problems that clients asked for, as gemm-warmup reads it: one
// line for each shape, however often it came. Written behind the requests.
// Thread-safe.
#ifndef GEMMD_SERVICE_DAEMON_PROBLEM_LOG_H_
#define GEMMD_SERVICE_DAEMON_PROBLEM_LOG_H_

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "jit/base/file.h"
#include "jit/base/task_queue.h"
#include "jit/problem/problem.h"

namespace gemmd::daemon {

class ProblemLog {
 public:
  // Goes on with the file at `path` when there is one. INVALID_ARGUMENT when
  // it cannot be written.
  static absl::StatusOr<std::unique_ptr<ProblemLog>> Open(
      const std::string& path);

  // Returns at once.
  void Note(const jit::Problem& problem);

 private:
  ProblemLog(jit::UniqueFd file, std::set<std::string> lines)
      : file_(std::move(file)), lines_(std::move(lines)), writer_(1) {}

  const jit::UniqueFd file_;
  std::mutex mutex_;
  std::set<std::string> lines_ ABSL_GUARDED_BY(mutex_);
  jit::TaskQueue writer_;  // Last: it uses the rest.
};

}  // namespace gemmd::daemon

#endif  // GEMMD_SERVICE_DAEMON_PROBLEM_LOG_H_
