#include "service/daemon/process_setup.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

namespace gemmd::daemon {

void SecureProcess() {
  signal(SIGPIPE, SIG_IGN);
  int fd;
  do {
    fd = open("/dev/null", O_RDWR);  // Gets the lowest number that is free.
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd > STDERR_FILENO) close(fd);
}

}  // namespace gemmd::daemon
