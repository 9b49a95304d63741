// A proxy that changes a bit of a message on its way. TCP's own checksum is too
// weak to notice what memory and network cards do; here it is done on purpose.
#ifndef GEMMD_TESTS_CLIENTS_CPP_DAMAGING_PROXY_H_
#define GEMMD_TESTS_CLIENTS_CPP_DAMAGING_PROXY_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "jit/base/file.h"

namespace gemmd::testing {

class DamagingProxy {
 public:
  enum Direction { kThere, kBack };

  // Of the server at `address`, "127.0.0.1:PORT".
  explicit DamagingProxy(const std::string& address)
      : listening_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    int port = 0;
    EXPECT_TRUE(
        absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    server_ = Loopback(port);
    sockaddr_in any = Loopback(0);
    socklen_t size = sizeof any;
    auto* const name = reinterpret_cast<sockaddr*>(&any);
    EXPECT_EQ(bind(listening_.get(), name, size), 0);
    EXPECT_EQ(listen(listening_.get(), 16), 0);
    EXPECT_EQ(getsockname(listening_.get(), name, &size), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(any.sin_port));
    thread_ = std::thread([this] { Serve(); });
  }
  ~DamagingProxy() {
    ending_ = true;
    thread_.join();
  }

  const std::string& address() const { return address_; }
  // Changes one bit in the middle of the next kRun bytes `of` in a row.
  void Damage(Direction direction, char of) {
    run_[direction] = std::string(kRun, of);
    armed_[direction] = true;
  }
  // Whether that was done.
  bool damaged(Direction direction) const { return !armed_[direction]; }

 private:
  static constexpr size_t kRun = 64;

  struct Pair {
    jit::UniqueFd client, server;
  };

  static sockaddr_in Loopback(int port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  void Serve() {
    while (!ending_) {
      std::vector<pollfd> waiting = {{listening_.get(), POLLIN, 0}};
      for (const Pair& pair : pairs_) {
        waiting.push_back({pair.client.get(), POLLIN, 0});
        waiting.push_back({pair.server.get(), POLLIN, 0});
      }
      if (poll(waiting.data(), waiting.size(), 20) <= 0) continue;
      for (size_t i = pairs_.size(); i-- > 0;) {
        const Pair& pair = pairs_[i];
        const bool open =
            (waiting[2 * i + 1].revents == 0 ||
             Move(pair.client.get(), pair.server.get(), kThere)) &&
            (waiting[2 * i + 2].revents == 0 ||
             Move(pair.server.get(), pair.client.get(), kBack));
        if (!open) pairs_.erase(pairs_.begin() + static_cast<ptrdiff_t>(i));
      }
      if (waiting[0].revents != 0) Accept();
    }
  }

  void Accept() {
    Pair pair = {jit::UniqueFd(accept(listening_.get(), nullptr, nullptr)),
                 jit::UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))};
    EXPECT_EQ(
        connect(pair.server.get(), reinterpret_cast<const sockaddr*>(&server_),
                sizeof server_),
        0);
    pairs_.push_back(std::move(pair));
  }

  // False when the connection has ended.
  bool Move(int from, int to, Direction direction) {
    std::array<char, 64 << 10> bytes;
    const ssize_t size = recv(from, bytes.data(), bytes.size(), 0);
    if (size <= 0) return false;
    std::string part(bytes.data(), static_cast<size_t>(size));
    if (armed_[direction]) {
      const size_t at = part.find(run_[direction]);
      if (at != part.npos) {
        part[at + kRun / 2] ^= 4;
        armed_[direction] = false;
      }
    }
    for (size_t sent = 0; sent < part.size();) {
      const ssize_t more =
          send(to, part.data() + sent, part.size() - sent, MSG_NOSIGNAL);
      if (more <= 0) return false;
      sent += static_cast<size_t>(more);
    }
    return true;
  }

  const jit::UniqueFd listening_;
  sockaddr_in server_;
  std::string address_;
  std::array<std::string, 2> run_;
  std::array<std::atomic<bool>, 2> armed_ = {};
  std::atomic<bool> ending_ = false;
  std::vector<Pair> pairs_;  // Of the thread.
  std::thread thread_;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_CLIENTS_CPP_DAMAGING_PROXY_H_
