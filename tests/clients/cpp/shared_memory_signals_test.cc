// A program that signals interrupt, as a profiler does, shares its memory with
// a daemon that takes its time.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "clients/cpp/shared_memory.h"

namespace gemmd::client {
namespace {

const std::string kHandle(32, 'a');

// A socket that listens at `path`.
int Listen(const std::string& path) {
  unlink(path.c_str());
  sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(name.sun_path, sizeof name.sun_path - 1);
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  EXPECT_EQ(listen(listener, 1), 0);
  return listener;
}

TEST(SharedMemorySignalsTest, TheyDoNotEndTheWaitForADaemon) {
  struct sigaction nothing = {};
  nothing.sa_handler = [](int) {};
  nothing.sa_flags = SA_RESTART;
  struct sigaction before;
  sigaction(SIGUSR1, &nothing, &before);
  const std::string path =
      absl::StrCat(testing::TempDir(), "/signals.", getpid());
  const int listener = Listen(path + ".memory");
  std::thread daemon([listener, caller = pthread_self()] {
    const int connection = accept(listener, nullptr, nullptr);
    for (int i = 0; i < 10; ++i) {
      absl::SleepFor(absl::Milliseconds(10));
      pthread_kill(caller, SIGUSR1);
    }
    send(connection, kHandle.data(), kHandle.size(), MSG_NOSIGNAL);
    close(connection);
  });
  const auto memory = SharedMemory::Create(
      "unix:" + path, 4096, [] { return int64_t{1} << 20; },
      [](const std::string&) { return absl::OkStatus(); });
  daemon.join();
  close(listener);
  unlink(absl::StrCat(path, ".memory").c_str());
  sigaction(SIGUSR1, &before, nullptr);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ((*memory)->handle(), kHandle);
}

}  // namespace
}  // namespace gemmd::client
