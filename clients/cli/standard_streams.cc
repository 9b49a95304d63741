#include "clients/cli/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <iostream>

#include "jit/base/file.h"

namespace gemmd::cli {

[[gnu::constructor(101)]] void HoldStandardStreams() {  // First of all.
  int fd;
  do {
    // Gets the lowest number that is free.
    const bool input = fcntl(STDIN_FILENO, F_GETFD) < 0;
    fd = open("/dev/null", input ? O_WRONLY : O_RDONLY);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd > STDERR_FILENO) close(fd);
}

absl::Status FlushStandardOutput() {
  errno = 0;
  std::cout.flush();
  const bool arrived =
      std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
  if (arrived) return absl::OkStatus();
  if (errno == 0) {
    // An earlier write failed, and its reason is forgotten: one more finds it.
    std::putchar('\n');
    std::fflush(stdout);
  }
  return jit::ErrnoStatus(errno != 0 ? errno : EIO, "write standard output");
}

}  // namespace gemmd::cli
