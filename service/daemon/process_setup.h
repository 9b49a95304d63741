// What the process needs before anything else.
#ifndef GEMMD_SERVICE_DAEMON_PROCESS_SETUP_H_
#define GEMMD_SERVICE_DAEMON_PROCESS_SETUP_H_

namespace gemmd::daemon {

// A pipe or connection whose other end has gone is an error where it is
// written to, not the end of the process. And descriptors 0 to 2 are open, if
// to /dev/null: else the next file or socket would become standard error and
// log lines would be written into it. Call first, without other threads.
void SecureProcess();

}  // namespace gemmd::daemon

#endif  // GEMMD_SERVICE_DAEMON_PROCESS_SETUP_H_
