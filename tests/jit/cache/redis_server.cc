#include "tests/jit/cache/redis_server.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "absl/time/clock.h"
#include "jit/base/status.h"
#include "jit/cache/redis_connection.h"

namespace gemmd::jit {

RedisServerProcess::RedisServerProcess(const std::string& password,
                                       const std::vector<std::string>& more) {
  // The package redis-tools has the server under another name; it is what its
  // first argument calls it.
  const std::string& directory = directory_.path();
  std::vector<std::string> words = {"redis-server", "--port", "0"};
  for (const auto& [name, value] : {std::pair{"--unixsocket", directory + "/s"},
                                    {"--save", ""},
                                    {"--appendonly", "no"},
                                    {"--logfile", "/dev/null"},
                                    {"--dir", directory},
                                    {"--requirepass", password}}) {
    words.insert(words.end(), {name, value});
  }
  words.insert(words.end(), more.begin(), more.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    execv(GEMMD_TEST_REDIS, arguments.data());
    _exit(127);
  }
  const absl::Time end = absl::Now() + absl::Seconds(30);
  RedisConnection connection({.address = address(), .password = password});
  while (!connection.Command({"PING"}, 100, end).ok()) {
    CHECK(absl::Now() < end);
    absl::SleepFor(absl::Milliseconds(10));
  }
}

RedisServerProcess::~RedisServerProcess() { Kill(); }

void RedisServerProcess::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

FakeServer::FakeServer(std::function<void(int socket)> talk)
    : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address),
             sizeof(address)) == 0);
  CHECK(listen(listener_.get(), 8) == 0);
  thread_ = std::thread([this, talk = std::move(talk)] {
    while (true) {
      const UniqueFd connection(accept(listener_.get(), nullptr, nullptr));
      if (!connection.ok()) return;
      talk(connection.get());
    }
  });
}

FakeServer::~FakeServer() {
  shutdown(listener_.get(), SHUT_RDWR);
  thread_.join();
}

std::string FakeServer::address() const {
  sockaddr_in address = {};
  socklen_t length = sizeof(address);
  CHECK(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address),
                    &length) == 0);
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

}  // namespace gemmd::jit
