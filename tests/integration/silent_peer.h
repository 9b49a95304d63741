// A client that begins a connection of HTTP/2 and then says nothing, not even
// that it is alive.
#ifndef GEMMD_TESTS_INTEGRATION_SILENT_PEER_H_
#define GEMMD_TESTS_INTEGRATION_SILENT_PEER_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "jit/base/file.h"

namespace gemmd::testing {

class SilentPeer {
 public:
  explicit SilentPeer(const std::string& address)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    int port = 0;
    EXPECT_TRUE(
        absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_.get(), reinterpret_cast<sockaddr*>(&to), sizeof to),
              0);
    // HTTP/2's first words and empty settings.
    const absl::string_view hello(
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 24 + 9);
    EXPECT_EQ(send(fd_.get(), hello.data(), hello.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(hello.size()));
  }

  // Takes what comes until the end of the connection: true; or for `time`.
  bool Ends(absl::Duration time) {
    for (const absl::Time end = absl::Now() + time; absl::Now() < end;) {
      if (!Take()) return true;
    }
    return false;
  }

  // Takes what comes until a frame of `type` has: true; or for `time`.
  bool Hears(uint8_t type, absl::Duration time) {
    const absl::Time end = absl::Now() + time;
    while (!Heard(type) && absl::Now() < end) {
      if (!Take()) break;
    }
    return Heard(type);
  }

  // Whether a frame of `type` was among what came.
  bool Heard(uint8_t type) const {
    for (size_t at = 0; at + 9 <= heard_.size();) {
      const auto byte = [&](size_t i) -> size_t {
        return static_cast<uint8_t>(heard_[at + i]);
      };
      if (byte(3) == type) return true;
      at += 9 + (byte(0) << 16 | byte(1) << 8 | byte(2));
    }
    return false;
  }

 private:
  // What comes within 20 ms; false at the end of the connection.
  bool Take() {
    pollfd waiting = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
    if (poll(&waiting, 1, 20) <= 0) return true;
    char bytes[4096];
    const ssize_t size = recv(fd_.get(), bytes, sizeof bytes, 0);
    if (size <= 0) return false;
    heard_.append(bytes, size);
    return true;
  }

  const jit::UniqueFd fd_;
  std::string heard_;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_INTEGRATION_SILENT_PEER_H_
