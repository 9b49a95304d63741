// A file of the problems that clients asked for, as gemm-warmup reads it: one
// line for each shape, however often it came, and for each kernel of groups one
// of those that needed it: up to 65,536 lines and 64 MiB, of which the log
// tells when there would be more, as it does of lines that cannot be written.
// Written behind the requests. Thread-safe.
#ifndef GEMMD_SERVICE_DAEMON_PROBLEM_LOG_H_
#define GEMMD_SERVICE_DAEMON_PROBLEM_LOG_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "jit/base/file.h"
#include "jit/base/task_queue.h"
#include "jit/problem/problem.h"

namespace gemmd::daemon {

class ProblemLog {
 public:
  // Goes on with the file at `path` when there is one. What a crash or a power
  // cut left at its end, a part of a line or zeros, is cut off and the log says
  // so; a line before that which cannot be read, perhaps of another version,
  // stays and is passed over. INVALID_ARGUMENT when the file cannot be written,
  // or holds bytes that are no text or lines none of which is a problem, and
  // then is left as it is.
  static absl::StatusOr<std::unique_ptr<ProblemLog>> Open(
      const std::string& path);

  // Returns at once.
  void Note(const jit::Problem& problem);
  // `group` needs `kernel`.
  void Note(absl::Span<const jit::Problem> group, const std::string& kernel);

 private:
  ProblemLog(std::string path, jit::UniqueFd file, std::set<std::string> known,
             int64_t bytes)
      : path_(std::move(path)),
        file_(std::move(file)),
        known_(std::move(known)),
        bytes_(bytes),
        writer_(1) {}

  // Unless there is one for `key` already.
  void Write(const std::string& key, std::string line);

  const std::string path_;  // For the log.
  const jit::UniqueFd file_;
  std::mutex mutex_;
  // Lines of problems, kernels of groups.
  std::set<std::string> known_ ABSL_GUARDED_BY(mutex_);
  // Of the file, or more: what could not be written counts.
  int64_t bytes_ ABSL_GUARDED_BY(mutex_);
  bool full_ ABSL_GUARDED_BY(mutex_) = false;  // Said so.
  jit::TaskQueue writer_;                      // Last: it uses the rest.
};

}  // namespace gemmd::daemon

#endif  // GEMMD_SERVICE_DAEMON_PROBLEM_LOG_H_
