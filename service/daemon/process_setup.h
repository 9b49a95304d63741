// What the process needs before anything else.
#ifndef GEMMD_SERVICE_DAEMON_PROCESS_SETUP_H_
#define GEMMD_SERVICE_DAEMON_PROCESS_SETUP_H_

namespace gemmd::daemon {

// A pipe or connection whose other end has gone is an error where it is
// written to, not the end of the process. And no file or socket becomes
// standard error, where log lines would be written into it
// (clients/cli/standard_streams.h). Mutexes are quick (clients/cli/mutexes.h).
// Call first, without other threads.
void SecureProcess();

}  // namespace gemmd::daemon

#endif  // GEMMD_SERVICE_DAEMON_PROCESS_SETUP_H_
