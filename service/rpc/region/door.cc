#include "service/rpc/region/door.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/base/status.h"
#include "jit/base/steady_time.h"
#include "jit/base/thread_name.h"
#include "service/log/log.h"
#include "service/rpc/address.h"
#include "service/rpc/descriptors.h"
#include "service/rpc/given_fd.h"

namespace gemmd::rpc::region {
namespace {

constexpr int kTickMs = 250;
// How long nobody is let in after that failed.
constexpr absl::Duration kPause = absl::Milliseconds(100);

void Watch(int epoll, int fd, uint32_t events) {
  epoll_event event = {.events = events, .data = {.fd = fd}};
  CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
}

// The descriptor that has come with one byte, or none with kNoDescriptor;
// nothing where anything else has come.
std::optional<GivenFd> ReceiveOne(int socket) {
  std::array<char, 2> bytes;
  iovec part = {.iov_base = bytes.data(), .iov_len = bytes.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const GivenRoom room(message);
  const ssize_t count =
      recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (count < 0) return std::nullopt;
  std::vector<GivenFd> came = room.Take(message);
  const bool whole = (message.msg_flags & MSG_CTRUNC) == 0;
  if (count != 1 || came.size() > 1 || !whole) return std::nullopt;
  if (!came.empty()) return std::move(came.front());
  if (bytes[0] != kNoDescriptor) return std::nullopt;
  return GivenFd();
}

// Whether what comes has to stay where it is, until what has come is closed.
bool MayTakeNothing() {
  const int waiting = WaitingToBeClosed();
  if (waiting < kMostWaiting) return false;
  log::Write(log::Level::kWarning, "descriptors_not_closed",
             {{"waiting", waiting},
              {"message",
               "whoever made one that a client passed holds up its closing; "
               "until it is closed nobody is let in to share memory"}});
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Door>> Door::Open(
    const std::vector<std::string>& addresses, Store& store, Options options) {
  std::vector<ListeningSocket> sockets;
  for (const std::string& address : addresses) {
    if (!IsUnix(address)) continue;
    ASSIGN_OR_RETURN(ListeningSocket socket,
                     ListeningSocket::Bind(absl::StrCat(address, ".memory"),
                                           /*takes_descriptors=*/true));
    sockets.push_back(std::move(socket));
  }
  if (sockets.empty()) return nullptr;
  return std::unique_ptr<Door>(new Door(std::move(sockets), store, options));
}

Door::Door(std::vector<ListeningSocket> sockets, Store& store, Options options)
    : store_(store),
      options_(options),
      sockets_(std::move(sockets)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  CHECK(epoll_.ok() && wake_.ok());
  Watch(epoll_.get(), wake_.get(), EPOLLIN);
  for (const ListeningSocket& socket : sockets_) {
    for (const jit::UniqueFd& fd : socket.fds()) {
      Watch(epoll_.get(), fd.get(), EPOLLIN);
    }
  }
  thread_ = std::thread(&Door::Serve, this);
}

Door::~Door() {
  stopping_ = true;
  const uint64_t one = 1;
  CHECK(write(wake_.get(), &one, sizeof one) == sizeof one);
  thread_.join();
  while (!guests_.empty()) Dismiss(guests_.begin()->first);
}

void Door::Serve() {
  jit::NameThread("door");
  bool unknown = false;
  while (!stopping_) {
    // One at a time: to let somebody in may send another away, and what is told
    // of his descriptor beside it would be taken for the next one's.
    epoll_event event;
    if (epoll_wait(epoll_.get(), &event, 1, unknown ? kTickMs : -1) == 1) {
      const int fd = event.data.fd;
      if (guests_.contains(fd)) {
        Hear(fd);
      } else if (fd != wake_.get()) {
        Accept(fd);
      }
    }
    unknown = DismissLate();
  }
}

void Door::Accept(int listening_fd) {
  if (MayTakeNothing()) {  // Whoever comes waits with the kernel.
    absl::SleepFor(kPause);
    return;
  }
  jit::UniqueFd fd(
      accept4(listening_fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd.ok()) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
        errno == ENOMEM) {
      absl::SleepFor(kPause);  // What others give back ends it.
    }
    return;
  }
  const int most = std::min(options_.max_connections, MostGuests());
  if (std::ssize(guests_) >= most && !MakeRoom()) {
    log::Write(log::Level::kWarning, "region_refused", {{"connections", most}});
    return;
  }
  Watch(epoll_.get(), fd.get(), EPOLLIN | EPOLLRDHUP);
  const int number = fd.get();
  guests_[number] = {
      .fd = std::move(fd), .handle = "", .since = jit::SteadyNow()};
}

bool Door::MakeRoom() {
  auto oldest = guests_.end();
  for (auto it = guests_.begin(); it != guests_.end(); ++it) {
    const auto& [fd, guest] = *it;
    const bool waits = guest.handle.empty() ||
                       store_.StateOf(guest.handle) == Store::State::kOffered;
    if (waits &&
        (oldest == guests_.end() || guest.since < oldest->second.since)) {
      oldest = it;
    }
  }
  if (oldest == guests_.end()) return false;
  Dismiss(oldest->first);
  return true;
}

void Door::Hear(int fd) {
  Guest& guest = guests_[fd];
  // Whoever has been heard is to be silent until he goes.
  if (!guest.handle.empty() || MayTakeNothing()) return Dismiss(fd);
  std::optional<GivenFd> offered = ReceiveOne(fd);
  if (!offered) return Dismiss(fd);
  guest.handle = store_.Offer(*std::move(offered));
  const ssize_t sent = send(fd, guest.handle.data(), guest.handle.size(),
                            MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent != std::ssize(guest.handle)) Dismiss(fd);
}

void Door::Dismiss(int fd) {
  const auto guest = guests_.find(fd);
  // Whoever sees the end of his connection may count on that of his region.
  if (!guest->second.handle.empty()) store_.Withdraw(guest->second.handle);
  // What waits to be closed stays open, and epoll would go on telling of it by
  // a number that is the next one's.
  CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr) == 0);
  DropUnread(fd);
  guests_.erase(guest);
}

bool Door::DismissLate() {
  const absl::Time now = jit::SteadyNow();
  bool unknown = false;
  std::vector<int> late;
  for (const auto& [fd, guest] : guests_) {
    const bool brought = !guest.handle.empty();
    const Store::State state =
        brought ? store_.StateOf(guest.handle) : Store::State::kOffered;
    if (state == Store::State::kCreated) continue;
    const absl::Duration most =
        brought ? options_.creation_time : options_.gift_time;
    if (state == Store::State::kUnknown ||
        (state == Store::State::kOffered && now - guest.since > most)) {
      late.push_back(fd);
    } else {
      unknown = true;
    }
  }
  for (const int fd : late) Dismiss(fd);
  return unknown;
}

}  // namespace gemmd::rpc::region
