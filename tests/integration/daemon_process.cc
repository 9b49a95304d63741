#include "tests/integration/daemon_process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "jit/base/status.h"
#include "tests/integration/eventually.h"

namespace gemmd::testing {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(10);
constexpr absl::Duration kStartTimeout = absl::Seconds(60);

std::string ReadAll(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The words of a process's line in /proc after its name; none when it is gone.
std::vector<std::string> Stat(pid_t pid) {
  std::string line;
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  if (!std::getline(file, line)) return {};
  return absl::StrSplit(line.substr(line.rfind(')') + 2), ' ');
}

}  // namespace

bool Lives(pid_t pid) {
  const std::vector<std::string> stat = Stat(pid);
  return !stat.empty() && stat[0] != "Z" && stat[0] != "X";
}

int64_t CpuTicks(pid_t pid) {
  int64_t user = 0;
  const std::vector<std::string> stat = Stat(pid);
  CHECK(stat.size() > 11 && absl::SimpleAtoi(stat[11], &user));
  return user;
}

TemporaryFolder::TemporaryFolder() {
  char path[] = "/tmp/gemmd_test_XXXXXX";
  CHECK(mkdtemp(path) != nullptr);
  path_ = path;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

DaemonProcess::DaemonProcess(const std::vector<std::string>& flags,
                             int stderr_fd) {
  std::vector<std::string> arguments = {
      GEMMD_TEST_DAEMON, "--listen=127.0.0.1:0",
      "--port-file=" + folder_.path() + "/port",
      "--cache-dir=" + folder_.path() + "/cache"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const std::string log = folder_.path() + "/log";
  const int log_file = open(log.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  CHECK(log_file >= 0);
  pid_ = fork();
  CHECK(pid_ >= 0);
  if (pid_ == 0) {
    if (stderr_fd == kNoStderr) {
      close(STDERR_FILENO);
    } else {
      dup2(stderr_fd == kLogFile ? log_file : stderr_fd, STDERR_FILENO);
    }
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(log_file);
}

DaemonProcess::~DaemonProcess() {
  if (pid_ != 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  // Who was killed has no exit code that tells of it.
  const std::string log = Log();
  if (absl::StrContains(log, "Sanitizer: ") ||
      absl::StrContains(log, ": runtime error: ")) {
    std::cerr << "a sanitizer found something in the daemon:\n" << log << "\n";
    std::abort();
  }
}

std::string DaemonProcess::address() const {
  std::string line;
  std::ifstream file(folder_.path() + "/port");
  std::getline(file, line);
  return line;
}

std::shared_ptr<grpc::Channel> DaemonProcess::Connect() {
  const absl::Time end = absl::Now() + kStartTimeout;
  while (address().empty()) {
    if (Wait(kPoll).has_value() || absl::Now() > end) {
      std::cerr << "the daemon does not serve; its log:\n" << Log() << "\n";
      return nullptr;
    }
  }
  return grpc::CreateChannel(address(), grpc::InsecureChannelCredentials());
}

void DaemonProcess::Signal(int signal) const { CHECK(kill(pid_, signal) == 0); }

std::optional<int> DaemonProcess::Wait(absl::Duration timeout) {
  const absl::Time start = absl::Now();
  while (pid_ != 0) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = 0;
      exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    } else if (absl::Now() - start >= timeout) {
      return std::nullopt;
    } else {
      absl::SleepFor(kPoll);
    }
  }
  return exit_code_;
}

pid_t DaemonProcess::CompileWorker() const {
  pid_t child = 0;
  Eventually([&] {
    std::error_code error;
    for (const auto& entry :
         std::filesystem::directory_iterator("/proc", error)) {
      pid_t pid = 0;
      if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
      const std::vector<std::string> stat = Stat(pid);
      if (stat.size() > 1 && stat[1] == absl::StrCat(pid_)) child = pid;
    }
    return child != 0;
  });
  return child;
}

pid_t DaemonProcess::StopCompiler() const {
  const pid_t worker = CompileWorker();
  if (worker == 0) return 0;
  const int64_t before = CpuTicks(worker);
  const bool works = Eventually([&] { return CpuTicks(worker) > before + 2; });
  return works && kill(worker, SIGSTOP) == 0 ? worker : 0;
}

std::string DaemonProcess::Log() const {
  return ReadAll(folder_.path() + "/log");
}

}  // namespace gemmd::testing
