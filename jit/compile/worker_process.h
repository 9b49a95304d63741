// One compile worker as its parent sees it. Thread-compatible.
#ifndef GEMMD_JIT_COMPILE_WORKER_PROCESS_H_
#define GEMMD_JIT_COMPILE_WORKER_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "jit/base/file.h"
#include "jit/compile/compiler.h"
#include "jit/compile/worker_protocol.h"

namespace gemmd::jit {

class WorkerProcess {
 public:
  // Starts `program` (a path; "/proc/self/exe" is this one) with `arguments`.
  // `files` are open in it under the numbers from kWorkerFd + 1; here theirs
  // are larger. UNAVAILABLE when the system does not let it.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Start(
      const std::string& program, const std::vector<std::string>& arguments,
      const std::vector<int>& files = {});
  // Kills the process and waits for its end.
  ~WorkerProcess();

  // What the worker answered, or UNAVAILABLE saying how it ended when it
  // crashed or had to be killed at `deadline`. A worker that is not alive()
  // afterwards is of no more use.
  absl::StatusOr<CompileOutput> Compile(const CompileRequest& request,
                                        absl::Time deadline);

  // Whether the process closed its socket, which it does when it ends.
  bool HasEnded() const;
  // Whether somebody stopped it (SIGSTOP), so that it answers nobody.
  bool IsStopped() const;
  // Of the socket to the worker; shutting it down ends a compile.
  UniqueFd CopySocket() const;

  bool alive() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }

 private:
  WorkerProcess(pid_t pid, UniqueFd socket)
      : pid_(pid), socket_(std::move(socket)) {}

  // Kills, reaps, and says how the process ended.
  std::string End();

  pid_t pid_;
  UniqueFd socket_;
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_COMPILE_WORKER_PROCESS_H_
