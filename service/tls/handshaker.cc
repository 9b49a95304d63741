#include "service/tls/handshaker.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "jit/base/status.h"
#include "jit/base/steady_time.h"
#include "jit/base/thread_name.h"

namespace gemmd::tls {
namespace {

// Few at a time, so that what is new and what is late is not forgotten.
constexpr int kEvents = 16;

void Control(int epoll, int operation, int fd, uint32_t events) {
  epoll_event event = {.events = events, .data = {.fd = fd}};
  CHECK(epoll_ctl(epoll, operation, fd, &event) == 0);
}

bool HasUnread(int fd) {
  int bytes = 0;
  return ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

// Where a connection comes from: of IPv6 the network, in which a client has as
// many addresses as it likes.
std::string PeerOf(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size);
  if (address.ss_family == AF_INET) {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address);
    return {reinterpret_cast<const char*>(&ipv4.sin_addr), 4};
  }
  if (address.ss_family == AF_INET6) {
    const in6_addr& ipv6 =
        reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    const auto* const bytes = reinterpret_cast<const char*>(&ipv6);
    // On a socket of both, clients of IPv4 have these.
    return IN6_IS_ADDR_V4MAPPED(&ipv6) ? std::string(bytes + 12, 4)
                                       : std::string(bytes, 8);
  }
  return "";
}

}  // namespace

Handshaker::Handshaker(Options options)
    : options_(std::move(options)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  CHECK(epoll_.ok() && wake_.ok());
  Control(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), EPOLLIN);
  thread_ = std::thread(&Handshaker::Serve, this);
}

Handshaker::~Handshaker() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  Wake();
  thread_.join();
}

void Handshaker::Add(jit::UniqueFd fd, std::shared_ptr<const Context> context) {
  auto session = std::make_unique<Session>(std::move(context), fd.get());
  {
    std::lock_guard lock(mutex_);
    std::string peer = PeerOf(fd.get());
    new_.push_back(
        {std::move(fd), std::move(session), jit::SteadyNow(), std::move(peer)});
  }
  Wake();
}

void Handshaker::Wake() {
  const uint64_t one = 1;
  CHECK(write(wake_.get(), &one, sizeof one) == sizeof one || errno == EAGAIN);
}

void Handshaker::Serve() {
  jit::NameThread("handshakes");
  while (true) {
    epoll_event events[kEvents];
    const int count = epoll_wait(epoll_.get(), events, kEvents, FailLate());
    // Before what they tell of is looked at, lest one be taken for it later.
    uint64_t wakes;
    while (read(wake_.get(), &wakes, sizeof wakes) > 0) {
    }
    std::list<Pending> added;
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return;
      added.swap(new_);
    }
    for (int i = 0; i < count; ++i) {
      if (events[i].data.fd != wake_.get()) Step(events[i].data.fd);
    }
    Begin(std::move(added));
  }
}

void Handshaker::Begin(std::list<Pending> added) {
  while (!added.empty()) {
    const Place place = added.begin();
    const int fd = place->fd.get();
    pending_.splice(pending_.end(), added, place);
    by_fd_[fd] = place;
    Control(epoll_.get(), EPOLL_CTL_ADD, fd, EPOLLIN);
    if (static_cast<int64_t>(pending_.size()) > options_.max_pending) {
      Fail(Spare(), "too many handshakes are under way");
    }
  }
}

void Handshaker::Step(int fd) {
  const auto found = by_fd_.find(fd);
  if (found == by_fd_.end()) return;
  const Place place = found->second;
  place->has_sent = true;
  switch (place->session->Handshake()) {
    case Session::Progress::kWantsRead:
      return Control(epoll_.get(), EPOLL_CTL_MOD, fd, EPOLLIN);
    case Session::Progress::kWantsWrite:
      return Control(epoll_.get(), EPOLL_CTL_MOD, fd, EPOLLOUT);
    case Session::Progress::kFailed:
      return Fail(place, place->session->failure());
    case Session::Progress::kDone:
      break;
  }
  Control(epoll_.get(), EPOLL_CTL_DEL, fd, 0);
  by_fd_.erase(found);
  Pending done = std::move(*place);
  pending_.erase(place);
  options_.done(std::move(done.fd), std::move(done.session));
}

void Handshaker::Fail(Place place, const std::string& why) {
  const int fd = place->fd.get();
  options_.failed(fd, why);
  Control(epoll_.get(), EPOLL_CTL_DEL, fd, 0);
  by_fd_.erase(fd);
  pending_.erase(place);
}

Handshaker::Place Handshaker::Spare() {
  absl::flat_hash_map<std::string, int> counts;
  std::string most;
  for (const Pending& pending : pending_) {
    if (++counts[pending.peer] > counts[most]) most = pending.peer;
  }
  Place spare = pending_.end();
  for (Place place = pending_.begin(); place != pending_.end(); ++place) {
    if (place->peer != most) continue;
    place->has_sent |= HasUnread(place->fd.get());
    if (!place->has_sent) return place;
    if (spare == pending_.end()) spare = place;
  }
  return spare;
}

int Handshaker::FailLate() {
  while (!pending_.empty()) {
    const absl::Duration left =
        pending_.front().since + options_.timeout - jit::SteadyNow();
    if (left > absl::ZeroDuration()) {
      return static_cast<int>(
                 absl::ToInt64Milliseconds(std::min(left, absl::Seconds(60)))) +
             1;
    }
    Fail(pending_.begin(), "the handshake took too long");
  }
  return -1;
}

}  // namespace gemmd::tls
