// SIGTERM and SIGINT as something to wait for.
#ifndef GEMMD_SERVICE_DAEMON_STOP_SIGNAL_H_
#define GEMMD_SERVICE_DAEMON_STOP_SIGNAL_H_

namespace gemmd::daemon {

// From now on the first signal is kept for WaitForStopSignal, and further ones
// change nothing: the drain has a limit of its own. Call once.
void CatchStopSignals();

// Whether one has come.
bool StopIsAsked();

// Returns the signal that came.
int WaitForStopSignal();

}  // namespace gemmd::daemon

#endif  // GEMMD_SERVICE_DAEMON_STOP_SIGNAL_H_
