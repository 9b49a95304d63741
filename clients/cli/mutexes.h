// How abseil's mutexes, which gRPC locks several times a message, behave.
#ifndef GEMMD_CLIENTS_CLI_MUTEXES_H_
#define GEMMD_CLIENTS_CLI_MUTEXES_H_

namespace gemmd::cli {

// Debian builds abseil to look for deadlocks: whoever locks a mutex then takes
// a lock that the whole process has, and threads make each other slower.
// Programs do without; tests do not call this. Call first, without other
// threads.
void DoNotLookForDeadlocks();

}  // namespace gemmd::cli

#endif  // GEMMD_CLIENTS_CLI_MUTEXES_H_
