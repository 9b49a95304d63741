#include "service/daemon/stop_signal.h"

#include <signal.h>
#include <unistd.h>

#include <thread>

#include "jit/status.h"

namespace gemmd::daemon {
namespace {

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

int WaitOnce() {
  const sigset_t signals = StopSignals();
  int signal = 0;
  CHECK(sigwait(&signals, &signal) == 0);
  return signal;
}

}  // namespace

void BlockStopSignals() {
  const sigset_t signals = StopSignals();
  CHECK(pthread_sigmask(SIG_BLOCK, &signals, nullptr) == 0);
}

int WaitForStopSignal() {
  const int signal = WaitOnce();
  std::thread([] {
    WaitOnce();
    _exit(1);
  }).detach();
  return signal;
}

}  // namespace gemmd::daemon
