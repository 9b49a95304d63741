// The real daemon as a child process, in a folder of its own.
#ifndef GEMMD_TESTS_INTEGRATION_DAEMON_PROCESS_H_
#define GEMMD_TESTS_INTEGRATION_DAEMON_PROCESS_H_

#include <grpcpp/grpcpp.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace gemmd::testing {

// A temporary folder, removed with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// False for a zombie too: it holds nothing but its entry.
bool Lives(pid_t pid);
// What a living process has computed, in hundredths of a second.
int64_t CpuTicks(pid_t pid);

class DaemonProcess {
 public:
  // As its standard error: the file that Log reads; nothing at all.
  static constexpr int kLogFile = -1;
  static constexpr int kNoStderr = -2;

  // Runs gemmd on any free port with more `flags`. `stderr_fd` may be one of
  // the above.
  explicit DaemonProcess(const std::vector<std::string>& flags,
                         int stderr_fd = kLogFile);
  // Kills it if it runs.
  ~DaemonProcess();

  // Waits until it serves; null when it ended instead or does not for long.
  std::shared_ptr<grpc::Channel> Connect();
  std::string address() const;

  void Signal(int signal) const;
  pid_t pid() const { return pid_; }
  // The process that compiles for it, which starts with it. 0 when none comes.
  pid_t CompileWorker() const;
  // Stops that process in the midst of a compile that has begun, because an
  // idle one would be replaced. 0 when it does not compile.
  pid_t StopCompiler() const;
  // Its exit code, or minus the signal that killed it; nothing when it still
  // runs after `timeout`.
  std::optional<int> Wait(absl::Duration timeout = absl::Seconds(60));

  // What it has written to standard error.
  std::string Log() const;

 private:
  const TemporaryFolder folder_;
  pid_t pid_ = 0;  // 0 once it has been waited for.
  int exit_code_ = 0;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_INTEGRATION_DAEMON_PROCESS_H_
