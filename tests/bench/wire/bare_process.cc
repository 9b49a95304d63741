#include "tests/bench/wire/bare_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gemmd::wire {
namespace {

// Up to its end, or that of the file.
std::string ReadLine(int fd) {
  std::string line;
  for (char byte; read(fd, &byte, 1) == 1 && byte != '\n';) line += byte;
  return line;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BareProcess>> BareProcess::Start(
    bool unix_socket, int loops) {
  const std::string address =
      unix_socket ? absl::StrCat("unix-abstract:gemmd-wire-", getpid())
                  : "127.0.0.1:0";
  const std::string serve = absl::StrCat("--serve=", address);
  const std::string number = absl::StrCat("--loops=", loops);
  int input[2];
  int output[2];
  if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "no pipe to the bare server");
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  const char* const words[] = {"wire", serve.c_str(), number.c_str(), nullptr};
  pid_t pid = 0;
  const int error = posix_spawn(&pid, "/proc/self/exe", &actions, nullptr,
                                const_cast<char**>(words), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(input[0]);
  close(output[1]);
  std::string port;
  std::unique_ptr<BareProcess> process;
  if (error == 0) {
    process.reset(new BareProcess(pid, input[1]));
    port = ReadLine(output[0]);
  } else {
    close(input[1]);
  }
  close(output[0]);
  if (error != 0) return absl::ErrnoToStatus(error, "no bare server");
  if (port.empty()) {
    return absl::UnavailableError("the bare server did not start");
  }
  process->address_ = unix_socket ? address : absl::StrCat("127.0.0.1:", port);
  return process;
}

BareProcess::~BareProcess() {
  close(input_fd_);
  waitpid(pid_, nullptr, 0);
}

}  // namespace gemmd::wire
