// What the process needs before anything else.
#ifndef GEMMD_SERVICE_DAEMON_PROCESS_SETUP_H_
#define GEMMD_SERVICE_DAEMON_PROCESS_SETUP_H_

namespace gemmd::daemon {

// A pipe or connection whose other end has gone, and a file that may not grow
// (ulimit -f), are errors where they are written to, not the end of the
// process. Nor does SIGHUP end it: who tells other daemons by it that their
// files are new has nothing to tell this one, which looks at them by itself,
// and a supervisor would take that end for one that was wanted. And no file or
// socket becomes standard error, where log lines would be written into it
// (clients/cli/standard_streams.h). Mutexes are quick (clients/cli/mutexes.h).
// Call first, without other threads.
void SecureProcess();

}  // namespace gemmd::daemon

#endif  // GEMMD_SERVICE_DAEMON_PROCESS_SETUP_H_
