#include "service/rpc/traffic.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <vector>

#include "jit/base/status.h"
#include "service/rpc/given_fd.h"

namespace gemmd::rpc {
namespace {

// Who counts for a descriptor. A user announces itself before it looks, and
// StopCounting looks for users after it has taken the traffic away: whoever
// comes second sees the other.
struct Slot {
  std::atomic<Traffic*> traffic = nullptr;
  std::atomic<int> users = 0;
};
Slot slots[kCountedDescriptors];

class SlotUse {
 public:
  explicit SlotUse(int fd) {
    if (fd < 0 || fd >= kCountedDescriptors) return;
    if (slots[fd].traffic.load(std::memory_order_relaxed) == nullptr) return;
    slot_ = &slots[fd];
    ++slot_->users;
    traffic_ = slot_->traffic;
  }
  SlotUse(const SlotUse&) = delete;
  ~SlotUse() {
    if (slot_ != nullptr) --slot_->users;
  }

  Traffic* traffic() const { return traffic_; }

 private:
  Slot* slot_ = nullptr;
  Traffic* traffic_ = nullptr;
};

using ReceiveFunction = ssize_t (*)(int, msghdr*, int);
using SendFunction = ssize_t (*)(int, const msghdr*, int);
using ShutdownFunction = int (*)(int, int);

// The first `bytes` of a message, part by part.
template <typename Look>
void ForParts(const msghdr& message, size_t bytes, Look look) {
  for (size_t i = 0; bytes > 0; ++i) {
    const iovec& part = message.msg_iov[i];
    const size_t size = std::min(bytes, part.iov_len);
    look(absl::MakeConstSpan(static_cast<const char*>(part.iov_base), size));
    bytes -= size;
  }
}

// Receives what comes without descriptors. What comes with some stays where it
// is, and takes none of the daemon's.
ssize_t ReceiveNone(ReceiveFunction next, int fd, msghdr& message, int flags,
                    Traffic& traffic) {
  const ssize_t bytes = next(fd, &message, flags | MSG_PEEK);
  if (bytes <= 0) return bytes;
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    traffic.MakeDeaf();
    errno = ECONNRESET;
    return -1;
  }
  // No more than these: behind them something else may have come since.
  std::vector<iovec> parts;
  ForParts(message, bytes, [&parts](absl::Span<const char> part) {
    parts.push_back({const_cast<char*>(part.data()), part.size()});
  });
  msghdr exact = {};
  exact.msg_iov = parts.data();
  exact.msg_iovlen = parts.size();
  return next(fd, &exact, flags);
}

// Receives for gRPC, which has no room for descriptors.
ssize_t ReceiveWithout(ReceiveFunction next, int fd, msghdr& message, int flags,
                       Traffic& traffic) {
  if (WaitingToBeClosed() >= kMostWaiting && MayBringGiven(fd)) {
    return ReceiveNone(next, fd, message, flags, traffic);
  }
  const GivenRoom room(message);
  const ssize_t bytes = next(fd, &message, flags | MSG_CMSG_CLOEXEC);
  if (bytes >= 0 && !room.Take(message).empty()) traffic.MakeDeaf();
  message.msg_control = nullptr;
  message.msg_controllen = 0;
  return bytes;
}

// What stands between gRPC and the socket; null: nothing. What the kernel says
// of errors passes by it.
tls::Session* SessionOf(const Traffic* traffic, int flags) {
  if (traffic == nullptr || (flags & MSG_ERRQUEUE) != 0) return nullptr;
  return traffic->tls();
}

template <typename Function>
Function Next(const char* name) {
  const auto next = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
  CHECK(next != nullptr);
  return next;
}

}  // namespace

void StartCounting(int fd, Traffic& traffic) {
  CHECK(fd >= 0 && fd < kCountedDescriptors);
  slots[fd].traffic = &traffic;
}

void StopCounting(int fd) {
  slots[fd].traffic = nullptr;
  while (slots[fd].users != 0) sched_yield();
}

}  // namespace gemmd::rpc

extern "C" ssize_t recvmsg(int fd, msghdr* message, int flags) {
  using namespace gemmd::rpc;
  static const auto next = Next<ReceiveFunction>("recvmsg");
  const SlotUse use(fd);
  Traffic* const traffic = use.traffic();
  if (traffic != nullptr && traffic->deaf()) {
    errno = ECONNRESET;
    return -1;
  }
  ssize_t bytes;
  if (SessionOf(traffic, flags) != nullptr) {
    bytes = traffic->tls()->Receive(*message);
  } else if (traffic != nullptr && message->msg_control == nullptr) {
    bytes = ReceiveWithout(next, fd, *message, flags, *traffic);
  } else {
    bytes = next(fd, message, flags);
  }
  if (traffic != nullptr && bytes > 0) {
    const int error = errno;
    ForParts(*message, bytes, [&](auto part) { traffic->Received(part); });
    errno = traffic->deaf() ? ECONNRESET : error;
    if (traffic->deaf()) return -1;  // Nobody shall see what came.
  }
  return bytes;
}

extern "C" ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  using namespace gemmd::rpc;
  static const auto next = Next<SendFunction>("sendmsg");
  const SlotUse use(fd);
  Traffic* const traffic = use.traffic();
  const ssize_t bytes = SessionOf(traffic, 0) == nullptr
                            ? next(fd, message, flags)
                            : traffic->tls()->Send(*message);
  if (traffic != nullptr && bytes > 0) {
    const int error = errno;
    ForParts(*message, bytes, [&](auto part) { traffic->Sent(part); });
    errno = error;
  }
  return bytes;
}

extern "C" int shutdown(int fd, int how) noexcept {
  using namespace gemmd::rpc;
  static const auto next = Next<ShutdownFunction>("shutdown");
  const SlotUse use(fd);
  if (gemmd::tls::Session* const session = SessionOf(use.traffic(), 0)) {
    session->Close();
  }
  return next(fd, how);
}
