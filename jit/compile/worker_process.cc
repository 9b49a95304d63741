#include "jit/compile/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "jit/base/status.h"

extern char** environ;

namespace gemmd::jit {
namespace {

// Compiles yield to the threads that serve requests, however nice those are.
constexpr int kNicer = 5;

// The environment of this process, with one thread for numerical libraries
// that the program is linked with: a worker has no use for more.
std::vector<std::string> WorkerEnvironment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!absl::StartsWith(*variable, "OPENBLAS_NUM_THREADS=")) {
      variables.push_back(*variable);
    }
  }
  variables.push_back("OPENBLAS_NUM_THREADS=1");
  return variables;
}

// As exec takes them: pointers into `texts`, then null.
std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// What differs from this process in a worker.
class SpawnSettings {
 public:
  SpawnSettings(int worker_socket, const std::vector<int>& files) {
    CHECK(posix_spawn_file_actions_init(&actions_) == 0);
    CHECK(posix_spawnattr_init(&attributes_) == 0);
    // First, because the socket may be any number, 0 included.
    posix_spawn_file_actions_adddup2(&actions_, worker_socket, kWorkerFd);
    posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions_, 1, "/dev/null", O_WRONLY, 0);
    // Listening sockets, devices and the sockets of other workers stay here.
    int next = kWorkerFd + 1;
    for (const int file : files) {
      posix_spawn_file_actions_adddup2(&actions_, file, next++);
    }
    posix_spawn_file_actions_addclosefrom_np(&actions_, next);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    // A Ctrl-C at the terminal is for the parent, which then drains.
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK |
                                               POSIX_SPAWN_SETSIGDEF |
                                               POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Start(
    const std::string& program, const std::vector<std::string>& arguments,
    const std::vector<int>& files) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return absl::UnavailableError(
        ErrnoStatus(errno, "make a socket for a compile worker").message());
  }
  UniqueFd ours(sockets[0]);
  const UniqueFd theirs(sockets[1]);
  std::vector<std::string> words = {"compile-worker"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> environment = WorkerEnvironment();
  const SpawnSettings settings(theirs.get(), files);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), settings.actions(),
                                settings.attributes(), Pointers(words).data(),
                                Pointers(environment).data());
  if (error != 0) {
    return absl::UnavailableError(
        ErrnoStatus(error, "start a compile worker").message());
  }
  // From its first instruction, before it has loaded its libraries.
  setpriority(PRIO_PROCESS, pid, getpriority(PRIO_PROCESS, 0) + kNicer);
  return std::unique_ptr<WorkerProcess>(
      new WorkerProcess(pid, std::move(ours)));
}

WorkerProcess::~WorkerProcess() { End(); }

absl::StatusOr<CompileOutput> WorkerProcess::Compile(
    const CompileRequest& request, absl::Time deadline) {
  CHECK(alive());
  const auto exchange = [&]() -> absl::StatusOr<std::string> {
    RETURN_IF_ERROR(
        SendMessage(socket_.get(), EncodeRequest(request), deadline));
    return ReceiveMessage(socket_.get(), deadline);
  };
  const absl::StatusOr<std::string> reply = exchange();
  absl::StatusOr<CompileOutput> output = absl::UnknownError("");
  if (reply.ok() && DecodeReply(*reply, output).ok()) return output;
  if (reply.ok() || absl::IsDataLoss(reply.status())) {
    End();
    return absl::UnavailableError("the compile worker answered nonsense");
  }
  if (absl::IsDeadlineExceeded(reply.status())) {
    End();
    return absl::UnavailableError(
        "the compile did not end in time and was killed");
  }
  return absl::UnavailableError(absl::StrCat("the compile worker ", End()));
}

UniqueFd WorkerProcess::CopySocket() const {
  return UniqueFd(fcntl(socket_.get(), F_DUPFD_CLOEXEC, 0));
}

bool WorkerProcess::HasEnded() const {
  pollfd poll_fd = {.fd = socket_.get(), .events = POLLRDHUP, .revents = 0};
  return poll(&poll_fd, 1, 0) > 0;
}

bool WorkerProcess::IsStopped() const {
  siginfo_t info = {};
  return waitid(P_PID, static_cast<id_t>(pid_), &info,
                WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid != 0;
}

std::string WorkerProcess::End() {
  if (!alive()) return "is gone";
  // A worker that ended by itself closed its socket at that moment; the time
  // is for the kernel to make it a zombie, so that its own end is reported.
  siginfo_t info = {};
  if (HasEnded()) {
    for (int i = 0; i < 100 && info.si_pid == 0; ++i) {
      if (waitid(P_PID, static_cast<id_t>(pid_), &info,
                 WEXITED | WNOHANG | WNOWAIT) != 0) {
        break;
      }
      if (info.si_pid == 0) usleep(1000);
    }
  }
  kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  socket_.Reset();
  return WIFSIGNALED(status)
             ? absl::StrCat("died of signal ", WTERMSIG(status))
             : absl::StrCat("ended with code ", WEXITSTATUS(status));
}

}  // namespace gemmd::jit
