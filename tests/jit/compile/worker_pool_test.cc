#include "jit/compile/worker_pool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/time/clock.h"

namespace gemmd::jit {
namespace {

absl::Time Soon() { return absl::Now() + absl::Seconds(30); }

// False for a zombie too: it holds nothing but its entry.
bool Lives(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string id, name, state;
  return (file >> id >> name >> state) && state != "Z" && state != "X";
}

bool EndsSoon(pid_t pid) {
  for (int i = 0; i < 1000 && Lives(pid); ++i) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  return !Lives(pid);
}

class WorkerPoolTest : public testing::Test {
 protected:
  absl::StatusOr<CompileOutput> Order(const std::string& order,
                                      absl::Time deadline = Soon()) {
    return pool_.Compile({.source = order}, deadline);
  }

  pid_t WorkerPid() {
    int pid = 0;
    EXPECT_TRUE(absl::SimpleAtoi(Order("pid")->cubin, &pid));
    return pid;
  }

  WorkerPool pool_{{.program = GEMMD_TEST_FAKE_WORKER}};
};

int OpenFiles() {
  return static_cast<int>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

// Processes that this one has started and that live.
int Children() {
  int children = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "stat");
    std::string id, name, state;
    pid_t parent = 0;
    if (file >> id >> name >> state >> parent && parent == getpid() &&
        state != "Z") {
      ++children;
    }
  }
  return children;
}

TEST(FirstWorkerTest, IsStartedAtOnceUnlessItIsToWait) {
  const WorkerPool pool({.program = GEMMD_TEST_FAKE_WORKER});
  EXPECT_EQ(Children(), 1);
}

TEST(FirstWorkerTest, MayBeStartedLater) {
  {
    const WorkerPool pool(
        {.program = GEMMD_TEST_FAKE_WORKER, .first_after = absl::Minutes(1)});
    EXPECT_EQ(Children(), 0);
  }
  const WorkerPool pool({.program = GEMMD_TEST_FAKE_WORKER,
                         .first_after = absl::Milliseconds(50)});
  const absl::Time end = Soon();
  while (Children() == 0 && absl::Now() < end) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_EQ(Children(), 1);
}

TEST(FirstWorkerTest, IsThatOfACompileThatComesEarlier) {
  constexpr absl::Duration kAfter = absl::Seconds(2);
  WorkerPool pool({.program = GEMMD_TEST_FAKE_WORKER, .first_after = kAfter});
  EXPECT_TRUE(pool.Compile({.source = "pid"}, Soon()).ok());
  absl::SleepFor(kAfter + absl::Milliseconds(300));
  EXPECT_EQ(Children(), 1);
}

TEST(FirstWorkerTest, IsNotWaitedForByTheEnd) {
  const absl::Time start = absl::Now();
  {
    const WorkerPool pool(
        {.program = GEMMD_TEST_FAKE_WORKER, .first_after = absl::Hours(1)});
  }
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
}

TEST_F(WorkerPoolTest, KeepsItsWorker) { EXPECT_EQ(WorkerPid(), WorkerPid()); }

TEST_F(WorkerPoolTest, ACompileLeavesNoFileOpen) {
  WorkerPid();
  const int before = OpenFiles();
  for (int i = 0; i < 5; ++i) WorkerPid();
  EXPECT_EQ(OpenFiles(), before);
}

TEST_F(WorkerPoolTest, PassesOnWhatTheCompilerSaid) {
  const pid_t pid = WorkerPid();
  EXPECT_EQ(Order("reject").status(), absl::InternalError("nonsense"));
  EXPECT_EQ(WorkerPid(), pid);
}

TEST_F(WorkerPoolTest, ACrashFailsItsCompileOnly) {
  const pid_t pid = WorkerPid();
  const absl::Status status = Order("crash").status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "signal 6")) << status;
  EXPECT_FALSE(Lives(pid));
  EXPECT_NE(WorkerPid(), pid);
}

TEST_F(WorkerPoolTest, AnExitFailsItsCompileOnly) {
  const absl::Status status = Order("exit").status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "code 7")) << status;
  EXPECT_TRUE(Order("pid").ok());
}

TEST_F(WorkerPoolTest, AHangIsKilledAtItsDeadline) {
  const pid_t pid = WorkerPid();
  const absl::Time start = absl::Now();
  const absl::Status status =
      Order("hang", start + absl::Milliseconds(100)).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  EXPECT_FALSE(Lives(pid));
  EXPECT_TRUE(Order("pid").ok());
}

TEST_F(WorkerPoolTest, GivingUpEndsCompilesAndRefusesMore) {
  const pid_t pid = WorkerPid();
  kill(pid, SIGSTOP);  // It cannot even end by itself.
  absl::Status status;
  std::thread compile([&] { status = Order("hang").status(); });
  absl::SleepFor(absl::Milliseconds(50));
  const absl::Time start = absl::Now();
  pool_.GiveUp();
  compile.join();
  EXPECT_LT(absl::Now() - start, absl::Seconds(20));  // Not its deadline.
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_FALSE(Lives(pid));
  EXPECT_TRUE(absl::IsUnavailable(Order("pid").status()));
}

TEST_F(WorkerPoolTest, GarbageIsAnError) {
  const pid_t pid = WorkerPid();
  EXPECT_TRUE(absl::IsUnavailable(Order("garbage").status()));
  // What else that worker sends must not be taken for the next answer.
  EXPECT_NE(WorkerPid(), pid);
  EXPECT_FALSE(Lives(pid));
}

TEST_F(WorkerPoolTest, ReplacesAWorkerThatWasKilledWhenIdle) {
  const pid_t pid = WorkerPid();
  kill(pid, SIGKILL);
  ASSERT_TRUE(EndsSoon(pid));
  EXPECT_NE(WorkerPid(), pid);
}

TEST_F(WorkerPoolTest, ReplacesAWorkerThatWasStoppedWhenIdle) {
  const pid_t pid = WorkerPid();
  kill(pid, SIGSTOP);
  siginfo_t stopped = {};
  ASSERT_EQ(waitid(P_PID, pid, &stopped, WSTOPPED | WNOWAIT), 0);
  EXPECT_NE(WorkerPid(), pid);
  EXPECT_FALSE(Lives(pid));
}

// Nobody asks for a compile, so nobody takes the worker.
TEST_F(WorkerPoolTest, AWorkerThatWasKilledWhenIdleDoesNotStayAZombie) {
  const pid_t pid = WorkerPid();
  kill(pid, SIGKILL);
  const std::string entry = "/proc/" + std::to_string(pid);
  for (int i = 0; i < 3000 && std::filesystem::exists(entry); ++i) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_FALSE(std::filesystem::exists(entry));
}

TEST_F(WorkerPoolTest, RunsCompilesSideBySide) {
  std::string one, other;
  std::thread first([&] { one = Order("doze")->cubin; });
  std::thread second([&] { other = Order("doze")->cubin; });
  first.join();
  second.join();
  EXPECT_NE(one, other);
}

TEST_F(WorkerPoolTest, GivesAWorkerNothingButItsSocket) {
  const int file = open("/dev/null", O_RDONLY);  // Without O_CLOEXEC.
  ASSERT_GT(file, 3);
  // Its socket, the standard three, and the folder that it counts in.
  EXPECT_EQ(WorkerPool({.program = GEMMD_TEST_FAKE_WORKER})
                .Compile({.source = "count"}, Soon())
                ->log,
            "5");
  close(file);
}

// It yields to who serves requests, and a Ctrl-C is for its parent alone, whose
// signals are not its own.
TEST(WorkerProcessTest, DiffersFromItsParent) {
  constexpr int kIgnored = SIGUSR1, kBlocked = SIGUSR2;
  const auto before = signal(kIgnored, SIG_IGN);
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, kBlocked);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  for (const int ends : {kIgnored, kBlocked}) {
    WorkerPool pool({.program = GEMMD_TEST_FAKE_WORKER});
    int pid = 0;
    EXPECT_TRUE(
        absl::SimpleAtoi(pool.Compile({.source = "pid"}, Soon())->cubin, &pid));
    EXPECT_EQ(getpgid(pid), pid);
    EXPECT_EQ(getpriority(PRIO_PROCESS, static_cast<id_t>(pid)),
              std::min(getpriority(PRIO_PROCESS, 0) + 5, 19));
    kill(pid, ends);
    EXPECT_TRUE(EndsSoon(pid)) << ends;
  }
  pthread_sigmask(SIG_UNBLOCK, &blocked, nullptr);
  signal(kIgnored, before);
}

TEST(WorkerPoolLifeTest, EndsItsWorkersWithItself) {
  pid_t pid = 0;
  {
    WorkerPool pool({.program = GEMMD_TEST_FAKE_WORKER});
    ASSERT_TRUE(
        absl::SimpleAtoi(pool.Compile({.source = "pid"}, Soon())->cubin, &pid));
    EXPECT_TRUE(Lives(pid));
  }
  EXPECT_FALSE(Lives(pid));
}

TEST(WorkerPoolLifeTest, EndsIdleWorkersButTheLast) {
  WorkerPool pool({.program = GEMMD_TEST_FAKE_WORKER,
                   .idle_timeout = absl::Milliseconds(50)});
  std::string pids[2];
  std::thread first(
      [&] { pids[0] = pool.Compile({.source = "doze"}, Soon())->cubin; });
  pids[1] = pool.Compile({.source = "doze"}, Soon())->cubin;
  first.join();
  ASSERT_NE(pids[0], pids[1]);
  int living = 2;
  for (int i = 0; i < 500 && living != 1; ++i) {
    absl::SleepFor(absl::Milliseconds(10));
    living = Lives(std::stoi(pids[0])) + Lives(std::stoi(pids[1]));
  }
  EXPECT_EQ(living, 1);
}

TEST(WorkerPoolLifeTest, ReplacesAWorkerAfterSoManyCompiles) {
  WorkerPool pool(
      {.program = GEMMD_TEST_FAKE_WORKER, .compiles_per_worker = 2});
  const auto pid = [&] {
    return pool.Compile({.source = "pid"}, Soon())->cubin;
  };
  const std::string first = pid();
  EXPECT_EQ(pid(), first);
  EXPECT_NE(pid(), first);
}

TEST(WorkerPoolLifeTest, AProgramThatIsNotThereIsAnError) {
  WorkerPool pool({.program = "/nonexistent"});
  const absl::Status status = pool.Compile({.source = "pid"}, Soon()).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_FALSE(absl::StrContains(status.message(), "/nonexistent")) << status;
}

// The worker must go even though it is busy and nobody tells it.
TEST(WorkerPoolLifeTest, AKilledParentLeavesNoWorker) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    dup2(pipe_fds[1], 1);
    execl(GEMMD_TEST_FAKE_WORKER, GEMMD_TEST_FAKE_WORKER, "parent", nullptr);
    _exit(127);
  }
  close(pipe_fds[1]);
  std::FILE* const out = fdopen(pipe_fds[0], "r");
  int worker = 0;
  ASSERT_EQ(std::fscanf(out, "%d", &worker), 1);
  std::fclose(out);
  EXPECT_TRUE(Lives(worker));
  kill(parent, SIGKILL);
  EXPECT_TRUE(EndsSoon(worker));
  waitpid(parent, nullptr, 0);
}

}  // namespace
}  // namespace gemmd::jit
