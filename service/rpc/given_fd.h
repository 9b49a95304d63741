// Descriptors that clients pass by Unix sockets, wanted or not.
//
// To close the last one of a file may take as long as its maker likes: a TCP
// socket lingers until its bytes are taken, and whoever serves a file system
// answers when he wants. A thread that does it on the way, as the kernel does
// for who receives no descriptors and for who closes a socket in which some
// wait, then stands still, and with it all clients that it serves. One thread
// closes them all, and whoever takes some in looks first how many wait for it:
// what is not received takes none of the daemon's descriptors.
#ifndef GEMMD_SERVICE_RPC_GIVEN_FD_H_
#define GEMMD_SERVICE_RPC_GIVEN_FD_H_

#include <sys/socket.h>

#include <array>
#include <utility>
#include <vector>

#include "jit/base/file.h"

namespace gemmd::rpc {

// One of them. Nobody waits for its closing.
class GivenFd {
 public:
  GivenFd() = default;
  GivenFd(jit::UniqueFd fd) : fd_(std::move(fd)) {}  // NOLINT: is one.
  GivenFd(GivenFd&&) = default;
  GivenFd& operator=(GivenFd&&) = default;
  ~GivenFd();

  int get() const { return fd_.get(); }
  bool ok() const { return fd_.ok(); }

 private:
  jit::UniqueFd fd_;
};

// Room for all that come with one message: what finds none the kernel closes.
class GivenRoom {
 public:
  // `message` has no other room for control data, and is received with
  // MSG_CMSG_CLOEXEC next.
  explicit GivenRoom(msghdr& message);
  // What has come.
  std::vector<GivenFd> Take(const msghdr& message) const;

 private:
  static constexpr size_t kMost = 253;  // SCM_MAX_FD of the kernel.
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMost * sizeof(int))> bytes_;
};

// Of those that wait to be closed. There may be more by those of one message
// for each thread that receives one at the time.
inline constexpr int kMostWaiting = 512;
int WaitingToBeClosed();

// Ends a Unix socket, and throws away what has come by it and nobody will read;
// while kMostWaiting wait, by waiting with them in place of all that is in it.
void DropUnread(int socket);

// Whether some may come by a socket.
bool MayBringGiven(int socket);

// From now on none come by a Unix socket that is bound, nor by those that it
// accepts: who sends some is refused. Since Linux 6.16; before, nothing
// changes.
void RefuseGiven(int socket);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_GIVEN_FD_H_
