#include "service/daemon/process_setup.h"

#include <signal.h>

#include "clients/cli/mutexes.h"
#include "clients/cli/standard_streams.h"

namespace gemmd::daemon {

void SecureProcess() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  cli::HoldStandardStreams();
  cli::DoNotLookForDeadlocks();
}

}  // namespace gemmd::daemon
