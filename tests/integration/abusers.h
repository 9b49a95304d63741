// Clients that mean harm, or behave as if they did. Each runs on a thread of
// its own against a daemon until it is destroyed. Used by the tests of limits
// and by the soak.
#ifndef GEMMD_TESTS_INTEGRATION_ABUSERS_H_
#define GEMMD_TESTS_INTEGRATION_ABUSERS_H_

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace gemmd::testing {

// Goes on until `stop`, which it looks at every few seconds at least.
// `address` is "127.0.0.1:50051".
using Abuse = void (*)(const std::string& address,
                       const std::atomic<bool>& stop);

// Asks for large answers and reads none.
void NeverRead(const std::string& address, const std::atomic<bool>& stop);
// Eight connections full of calls that say nothing.
void KeepSilent(const std::string& address, const std::atomic<bool>& stop);
// Begins messages of 1 GiB, sends as much as it may, and no end.
void SendHalf(const std::string& address, const std::atomic<bool>& stop);
// Messages of very many tiny fields, and numbers without end.
void SendBombs(const std::string& address, const std::atomic<bool>& stop);
// Thousands of connections that do nothing.
void FloodConnections(const std::string& address,
                      const std::atomic<bool>& stop);
// Uploads that stop in the middle.
void StallUploads(const std::string& address, const std::atomic<bool>& stop);
// Uploads of one byte a message, beside which each has fields that nobody knows.
void PadUploads(const std::string& address, const std::atomic<bool>& stop);
// Frames that bring nothing, and headers that do not end.
void FloodFrames(const std::string& address, const std::atomic<bool>& stop);
// Calls that are reset as soon as they are opened.
void StormResets(const std::string& address, const std::atomic<bool>& stop);
// Calls of what is not there, whose answers nobody waits for.
void StormCalls(const std::string& address, const std::atomic<bool>& stop);
// Calls that say how much they will send, and send nothing: thousands wait for
// room until the time of all of them is over at once.
void AnnounceCalls(const std::string& address, const std::atomic<bool>& stop);
// 16 connections with 100 products of one element each on the way.
void CrowdCalls(const std::string& address, const std::atomic<bool>& stop);

struct NamedAbuse {
  const char* name;
  Abuse abuse;
};
const std::vector<NamedAbuse>& AllAbuses();

// A request of 21 bytes whose answer has `side` * `side` * 4 bytes.
std::string LargeAnswerRequest(int side);

class Abuser {
 public:
  Abuser(Abuse abuse, std::string address)
      : thread_([this, abuse, address] { abuse(address, stop_); }) {}
  ~Abuser() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_INTEGRATION_ABUSERS_H_
