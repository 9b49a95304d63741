// How a program gives its memory to a daemon that takes its time, while
// signals interrupt it, as a profiler's do, and what of it is left in the end.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "clients/cpp/shared_memory.h"

namespace gemmd::client {
namespace {

const std::string kHandle(32, 'a');

// Where memory is given: `serve` gets the connection of one program.
class Door {
 public:
  explicit Door(std::function<void(int connection)> serve) {
    unlink(path_.c_str());
    sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = {}};
    path_.copy(name.sun_path, sizeof name.sun_path - 1);
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&name), sizeof name),
              0);
    EXPECT_EQ(listen(listener_, 1), 0);
    thread_ = std::thread([this, serve = std::move(serve)] {
      const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) return;
      serve(connection);
      close(connection);
    });
  }
  ~Door() {
    shutdown(listener_, SHUT_RDWR);  // For who still waits at it.
    thread_.join();
    close(listener_);
    unlink(path_.c_str());
  }
  // Until the program goes.
  static void Answer(int connection) {
    char byte;
    recv(connection, &byte, 1, 0);
    send(connection, kHandle.data(), kHandle.size(), MSG_NOSIGNAL);
    recv(connection, &byte, 1, 0);
  }

  absl::StatusOr<std::unique_ptr<SharedMemory>> Give(
      const absl::Status& created = absl::OkStatus()) const {
    return SharedMemory::Create(
        // As gRPC takes it, too.
        absl::StrCat("unix://", path_.substr(0, path_.rfind('.'))), 4096,
        [] { return int64_t{1} << 20; },
        [&](const std::string&) { return created; });
  }

 private:
  const std::string path_ =
      absl::StrCat(::testing::TempDir(), "/door.", getpid(), ".memory");
  int listener_ = -1;
  std::thread thread_;
};

// Of SIGUSR1, which does nothing, while it lives.
class Handler {
 public:
  Handler() {
    struct sigaction nothing = {};
    nothing.sa_handler = [](int) {};
    nothing.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &nothing, &before_);
  }
  ~Handler() { sigaction(SIGUSR1, &before_, nullptr); }

 private:
  struct sigaction before_;
};

// Sends it to `caller` for a while, or until that is `over`.
void Interrupt(pthread_t caller, absl::Duration time,
               const std::atomic<bool>& over) {
  const absl::Time end = absl::Now() + time;
  while (absl::Now() < end && !over) {
    absl::SleepFor(absl::Milliseconds(10));
    pthread_kill(caller, SIGUSR1);
  }
}

TEST(SharedMemorySignalsTest, TheyDoNotEndTheWaitForADaemon) {
  const Handler handler;
  const Door door([caller = pthread_self()](int connection) {
    Interrupt(caller, absl::Milliseconds(100), false);
    Door::Answer(connection);
  });
  const auto memory = door.Give();
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ((*memory)->handle(), kHandle);
}

TEST(SharedMemorySignalsTest, NorDoTheyMakeItEndless) {
  const Handler handler;
  std::atomic<bool> over = false;
  const Door door([&over, caller = pthread_self()](int) {
    Interrupt(caller, absl::Minutes(1), over);
  });
  const absl::Time start = absl::Now();
  const absl::Status silent = door.Give().status();
  over = true;
  EXPECT_TRUE(absl::IsUnavailable(silent)) << silent;
  EXPECT_LT(absl::Now() - start, absl::Seconds(40)) << "ten are its patience";
}

TEST(SharedMemoryTurnedAwayTest, BeforeOrAfterSomethingWasGiven) {
  for (int i = 0; i < 20; ++i) {
    const Door door([i](int) { absl::SleepFor(absl::Milliseconds(i % 2)); });
    const absl::Status refused = door.Give().status();
    EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  }
}

// Files that are open, of which the programs that are started get some, and
// memory that was made to be shared.
struct Held {
  int files = 0;
  int inherited = 0;
  int memory = 0;

  friend bool operator==(const Held&, const Held&) = default;
};
Held Now() {
  Held held;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    const int flags = fcntl(std::stoi(entry.path().filename()), F_GETFD);
    ++held.files;
    held.inherited += (flags & FD_CLOEXEC) == 0;
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    held.memory += absl::StrContains(line, "memfd:gemmd");
  }
  return held;
}

TEST(SharedMemoryHeldTest, AllGoesWithTheObject) {
  const Held before = Now();
  {
    const Door door(Door::Answer);
    const Held with_door = Now();
    auto memory = door.Give();
    ASSERT_TRUE(memory.ok()) << memory.status();
    const Held meanwhile = Now();
    EXPECT_EQ(meanwhile.inherited, with_door.inherited);
    EXPECT_EQ(meanwhile.memory, with_door.memory + 1);
    memory->reset();
  }
  EXPECT_EQ(Now(), before);
}

TEST(SharedMemoryHeldTest, NothingIsLeftOfWhatTheDaemonRefuses) {
  const Held before = Now();
  const absl::Status none = absl::ResourceExhaustedError("no room");
  EXPECT_EQ(Door(Door::Answer).Give(none).status(), none);
  EXPECT_EQ(Now(), before);
}

TEST(SharedMemoryHeldTest, NothingIsLeftOfWhatTheSystemRefuses) {
  const Door door([](int) {});
  const Held before = Now();
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit none = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  const absl::Status refused = door.Give().status();
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  signal(SIGXFSZ, handler);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_EQ(Now(), before);
}

}  // namespace
}  // namespace gemmd::client
