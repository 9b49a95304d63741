// SIGTERM and SIGINT as something to wait for.
#ifndef GEMMD_SERVICE_DAEMON_STOP_SIGNAL_H_
#define GEMMD_SERVICE_DAEMON_STOP_SIGNAL_H_

namespace gemmd::daemon {

// In main, before any thread is started: threads inherit the mask, so that
// the signals reach nobody but the waiter.
void BlockStopSignals();

// Returns the signal that came. From then on a second one ends the process at
// once with status 1.
int WaitForStopSignal();

}  // namespace gemmd::daemon

#endif  // GEMMD_SERVICE_DAEMON_STOP_SIGNAL_H_
