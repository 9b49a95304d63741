// A socket that listens on a free port of this machine.
#ifndef GEMMD_TESTS_LOOPBACK_LISTENER_H_
#define GEMMD_TESTS_LOOPBACK_LISTENER_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace gemmd {

class LoopbackListener {
 public:
  // Connections have buffers of `receive_bytes` if it is given.
  explicit LoopbackListener(int backlog, int receive_bytes = 0) {
    if (receive_bytes > 0) {
      setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes,
                 sizeof receive_bytes);
    }
    sockaddr_in name = {};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof name;
    auto* const any = reinterpret_cast<sockaddr*>(&name);
    EXPECT_EQ(bind(socket_, any, size), 0);
    EXPECT_EQ(listen(socket_, backlog), 0);
    EXPECT_EQ(getsockname(socket_, any, &size), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(name.sin_port));
  }
  LoopbackListener(const LoopbackListener&) = delete;
  LoopbackListener& operator=(const LoopbackListener&) = delete;
  ~LoopbackListener() { close(socket_); }

  const std::string& address() const { return address_; }
  // The next connection, or -1 once End() was called.
  int Accept() const { return accept(socket_, nullptr, nullptr); }
  void End() const { shutdown(socket_, SHUT_RDWR); }

 private:
  const int socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::string address_;
};

}  // namespace gemmd

#endif  // GEMMD_TESTS_LOOPBACK_LISTENER_H_
