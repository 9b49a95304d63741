#include "service/daemon/stop_signal.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "jit/base/status.h"

namespace gemmd::daemon {
namespace {

// A handler and a pipe, not a blocked mask and sigwait: libraries that start
// threads before main (OpenBLAS does) leave the signals unblocked in those.
int stop_pipe[2];
std::atomic<int> stops = 0;

void OnStop(int signal) {
  const int error = errno;
  if (stops++ > 0) return;  // It stops already.
  const char byte = static_cast<char>(signal);
  // One byte into an empty pipe cannot fail.
  [[maybe_unused]] const ssize_t written = write(stop_pipe[1], &byte, 1);
  errno = error;
}

}  // namespace

void CatchStopSignals() {
  CHECK(pipe2(stop_pipe, O_CLOEXEC) == 0);
  struct sigaction action = {};
  // Without SA_RESTART: under the thread sanitizer a handler runs only once
  // the system call that it interrupts has returned.
  action.sa_handler = OnStop;
  CHECK(sigaction(SIGTERM, &action, nullptr) == 0);
  CHECK(sigaction(SIGINT, &action, nullptr) == 0);
  // Who starts a program with them blocked leaves them so.
  sigset_t stops_only;
  sigemptyset(&stops_only);
  sigaddset(&stops_only, SIGTERM);
  sigaddset(&stops_only, SIGINT);
  CHECK(pthread_sigmask(SIG_UNBLOCK, &stops_only, nullptr) == 0);
}

bool StopIsAsked() { return stops > 0; }

int WaitForStopSignal() {
  char byte = 0;
  while (read(stop_pipe[0], &byte, 1) != 1) CHECK(errno == EINTR);
  return byte;
}

}  // namespace gemmd::daemon
