#include "service/rpc/given_fd.h"

#include <fcntl.h>
#include <string.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "absl/base/thread_annotations.h"

namespace gemmd::rpc {
namespace {

// In the headers of Linux 6.16.
constexpr int kPassRights = 83;  // SO_PASSRIGHTS

std::atomic<int> waiting_count = 0;

// Closes descriptors on a thread of its own. Never destroyed: the end of the
// process waits for none of them.
class Closer {
 public:
  Closer() {
    std::thread([this] { Run(); }).detach();
  }

  void Add(jit::UniqueFd fd) {
    std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(fd));
    ++waiting_count;
    changed_.notify_one();
  }

 private:
  [[noreturn]] void Run() {
    while (true) {
      jit::UniqueFd next;  // Closed after the lock.
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !waiting_.empty(); });
      next = std::move(waiting_.front());
      waiting_.pop_front();
      --waiting_count;
      lock.unlock();
      // Its maker may say otherwise again, but then this is not the last one,
      // or he is faster than the next line.
      const linger none = {.l_onoff = 0, .l_linger = 0};
      setsockopt(next.get(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<jit::UniqueFd> waiting_ ABSL_GUARDED_BY(mutex_);
};

// Memory waits for nobody.
bool IsMemory(int fd) { return fcntl(fd, F_GET_SEALS) >= 0; }

}  // namespace

GivenFd::~GivenFd() {
  if (!ok() || IsMemory(get())) return;
  static Closer& closer = *new Closer;
  closer.Add(std::move(fd_));
}

GivenRoom::GivenRoom(msghdr& message) {
  message.msg_control = bytes_.data();
  message.msg_controllen = bytes_.size();
}

std::vector<GivenFd> GivenRoom::Take(const msghdr& message) const {
  std::vector<GivenFd> came;
  // The kernel's macros take what they do not change for what they do.
  auto* const all = const_cast<msghdr*>(&message);
  for (cmsghdr* header = CMSG_FIRSTHDR(all); header != nullptr;
       header = CMSG_NXTHDR(all, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t bytes = header->cmsg_len - CMSG_LEN(0);
    for (size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
      int fd;
      memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
      came.emplace_back(jit::UniqueFd(fd));
    }
  }
  return came;
}

int WaitingToBeClosed() { return waiting_count; }

void DropUnread(int socket) {
  shutdown(socket, SHUT_RDWR);  // Nothing comes any more.
  char first;
  ssize_t bytes;
  do {
    if (recv(socket, &first, 1, MSG_PEEK | MSG_DONTWAIT) <= 0) return;
    if (WaitingToBeClosed() >= kMostWaiting) {
      const GivenFd last(jit::UniqueFd(fcntl(socket, F_DUPFD_CLOEXEC, 0)));
      return;
    }
    std::array<char, 4096> read;
    iovec part = {.iov_base = read.data(), .iov_len = read.size()};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    const GivenRoom room(message);
    bytes = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (bytes >= 0) room.Take(message);
  } while (bytes > 0);
}

bool MayBringGiven(int socket) {
  int domain = 0;
  socklen_t size = sizeof domain;
  if (getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 ||
      domain != AF_UNIX) {
    return false;
  }
  int passes = 1;
  size = sizeof passes;
  getsockopt(socket, SOL_SOCKET, kPassRights, &passes, &size);
  return passes != 0;
}

void RefuseGiven(int socket) {
  const int off = 0;
  setsockopt(socket, SOL_SOCKET, kPassRights, &off, sizeof off);
}

}  // namespace gemmd::rpc
