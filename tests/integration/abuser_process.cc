#include "tests/integration/abuser_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>

#include "absl/algorithm/container.h"
#include "jit/base/status.h"
#include "tests/integration/abusers.h"

namespace gemmd::testing {
namespace {

constexpr int kLeastCores = 8;

// Of this thread, and of what it starts from now on.
void KeepTo(const cpu_set_t& cores) {
  CHECK(sched_setaffinity(0, sizeof(cores), &cores) == 0);
}

}  // namespace

AbuserCores::AbuserCores() {
  cpu_set_t all;
  CHECK(sched_getaffinity(0, sizeof(all), &all) == 0);
  theirs_ = ours_ = all;
  const int count = CPU_COUNT(&all);
  if (count < kLeastCores) return;
  int seen = 0;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &all)) continue;
    CPU_CLR(core, seen++ < count / 2 ? &ours_ : &theirs_);
  }
  KeepTo(ours_);
}

AbuserProcess::AbuserProcess(const AbuserCores& cores,
                             const std::string& address,
                             const std::vector<std::string>& names) {
  std::vector<std::string> words = {"abusers", kFlag, address};
  words.insert(words.end(), names.begin(), names.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int input[2];
  CHECK(pipe2(input, O_CLOEXEC) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  KeepTo(cores.theirs());  // The child inherits it.
  CHECK(posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, argv.data(),
                    environ) == 0);
  KeepTo(cores.ours());
  posix_spawn_file_actions_destroy(&actions);
  close(input[0]);
  until_closed_ = input[1];
}

AbuserProcess::~AbuserProcess() {
  close(until_closed_);
  int how = 0;
  CHECK(waitpid(pid_, &how, 0) == pid_);
  // Abusers that died are none.
  CHECK(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

int RunAbusers(const std::vector<std::string>& arguments) {
  CHECK(!arguments.empty());
  const std::vector<std::string> names(arguments.begin() + 1, arguments.end());
  std::vector<std::unique_ptr<Abuser>> abusers;
  for (const NamedAbuse& named : AllAbuses()) {
    if (!names.empty() && !absl::c_linear_search(names, named.name)) continue;
    abusers.push_back(std::make_unique<Abuser>(named.abuse, arguments[0]));
  }
  for (char byte; read(STDIN_FILENO, &byte, 1) > 0;) {
  }
  return 0;
}

}  // namespace gemmd::testing
