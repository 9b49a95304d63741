// A socket whose last descriptor takes a minute to be closed: nobody takes what
// was sent by it, and it lingers.
#ifndef GEMMD_TESTS_SERVICE_RPC_LINGERING_SOCKET_H_
#define GEMMD_TESTS_SERVICE_RPC_LINGERING_SOCKET_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include <array>
#include <optional>
#include <utility>

#include "jit/base/file.h"
#include "service/rpc/given_fd.h"
#include "tests/service/gate.h"

namespace gemmd::testing {

class LingeringSocket {
 public:
  LingeringSocket() {
    const jit::UniqueFd listening(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in name = {};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof name;
    auto* const address = reinterpret_cast<sockaddr*>(&name);
    EXPECT_EQ(bind(listening.get(), address, size), 0);
    EXPECT_EQ(listen(listening.get(), 1), 0);
    EXPECT_EQ(getsockname(listening.get(), address, &size), 0);
    fd_ = jit::UniqueFd(socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(connect(fd_.get(), address, size), 0);
    peer_ = jit::UniqueFd(accept(listening.get(), nullptr, nullptr));
    static constexpr std::array<char, 65536> kBytes = {};
    while (send(fd_.get(), kBytes.data(), kBytes.size(), MSG_DONTWAIT) > 0) {
    }
    const linger minute = {.l_onoff = 1, .l_linger = 60};
    EXPECT_EQ(
        setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &minute, sizeof minute),
        0);
  }
  // Nothing waits for what nobody will take.
  ~LingeringSocket() { peer_.Reset(); }

  jit::UniqueFd Take() { return std::move(fd_); }

  // Passes the descriptor with `byte` by a Unix socket, and keeps none. False
  // where the other side takes none.
  bool Pass(int by, char byte = 'x') {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
    iovec part = {.iov_base = &byte, .iov_len = 1};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = fd_.get();
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    if (sendmsg(by, &message, MSG_NOSIGNAL) != 1) return false;
    fd_.Reset();
    return true;
  }

  // An end of a Unix socket in which the descriptor waits: who closes that
  // cannot tell it not to linger.
  jit::UniqueFd Wrap() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const jit::UniqueFd other(ends[0]);
    EXPECT_TRUE(Pass(other.get()));
    return jit::UniqueFd(ends[1]);
  }

 private:
  jit::UniqueFd fd_;
  jit::UniqueFd peer_;
};

// While there is one, this process closes nothing that clients have passed, and
// as many wait for it as may.
class ClosingHeldUp {
 public:
  ClosingHeldUp() {
    { const rpc::GivenFd stuck(lingering_->Wrap()); }
    EXPECT_TRUE(Eventually([] { return rpc::WaitingToBeClosed() == 0; }));
    while (rpc::WaitingToBeClosed() < rpc::kMostWaiting) {
      const rpc::GivenFd one(jit::UniqueFd(dup(0)));
    }
  }
  ~ClosingHeldUp() {
    GoOn();
    EXPECT_TRUE(Eventually([] { return rpc::WaitingToBeClosed() == 0; }));
  }

  void GoOn() { lingering_.reset(); }

 private:
  std::optional<LingeringSocket> lingering_{std::in_place};
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_SERVICE_RPC_LINGERING_SOCKET_H_
