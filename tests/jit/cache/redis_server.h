// Servers for tests of the shared tier: a real Redis and one that misbehaves.
#ifndef GEMMD_TESTS_JIT_CACHE_REDIS_SERVER_H_
#define GEMMD_TESTS_JIT_CACHE_REDIS_SERVER_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "jit/base/file.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {

// A real server on a Unix socket of its own, that keeps nothing on disk.
class RedisServerProcess {
 public:
  // `more`: arguments besides.
  explicit RedisServerProcess(const std::string& password = "",
                              const std::vector<std::string>& more = {});
  ~RedisServerProcess();

  std::string address() const { return "unix:" + directory_.path() + "/s"; }
  void Kill();

 private:
  const TemporaryDirectory directory_;
  pid_t pid_ = -1;
};

// Accepts connections and gives each to `talk`, on a loopback port.
class FakeServer {
 public:
  explicit FakeServer(std::function<void(int socket)> talk);
  ~FakeServer();

  std::string address() const;

 private:
  UniqueFd listener_;
  std::thread thread_;
};

}  // namespace gemmd::jit

#endif  // GEMMD_TESTS_JIT_CACHE_REDIS_SERVER_H_
