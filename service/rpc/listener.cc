#include "service/rpc/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "jit/base/status.h"
#include "jit/base/steady_time.h"
#include "jit/base/thread_name.h"
#include "service/log/log.h"
#include "service/rpc/descriptors.h"
#include "service/rpc/given_fd.h"

namespace gemmd::rpc {
namespace {

// How long nothing is accepted after it failed.
constexpr int kPauseMs = 100;
constexpr int kLagPauseMs = 10;
// Under way at a time.
constexpr int kMaxHandshakes = 256;
// gRPC is waited for so long to let an ended connection go.
constexpr absl::Duration kLongestLag = absl::Seconds(5);
// So many descriptors that clients passed may wait to be closed before those
// who could pass more wait. Those that share memory wait long before.
constexpr int kMostGivenWaiting = 4 * kMostWaiting;

// What an epoll event says: a kind and a descriptor.
enum Kind : uint32_t { kListening, kWake, kConnection };
uint64_t Pack(Kind kind, int fd) {
  return uint64_t{kind} << 32 | static_cast<uint32_t>(fd);
}

ino_t SocketOf(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 ? status.st_ino : 0;
}

// At the other end of a Unix socket, as it was when that was connected.
std::optional<ucred> UserOf(int fd) {
  sockaddr_storage own = {};
  socklen_t size = sizeof own;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0 ||
      own.ss_family != AF_UNIX) {
    return std::nullopt;
  }
  ucred user = {};
  size = sizeof user;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &size) != 0) {
    return std::nullopt;
  }
  return user;
}

std::string PeerOf(int fd) {
  if (const auto user = UserOf(fd)) return absl::StrCat("unix:pid=", user->pid);
  sockaddr_storage peer = {};
  socklen_t size = sizeof peer;
  char text[INET6_ADDRSTRLEN] = "";
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) {
    return "gone";
  }
  if (peer.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<sockaddr_in&>(peer);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return absl::StrCat("ipv4:", text, ":", ntohs(v4.sin_port));
  }
  if (peer.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<sockaddr_in6&>(peer);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    return absl::StrCat("ipv6:[", text, "]:", ntohs(v6.sin6_port));
  }
  return "unknown";
}

void Watch(int epoll, int fd, uint32_t events, uint64_t data) {
  epoll_event event = {.events = events, .data = {.u64 = data}};
  CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Create(
    const std::vector<std::string>& addresses, Options options,
    Budget& requests, Budget& responses, CallCount& calls) {
  std::vector<ListeningSocket> sockets;
  for (const std::string& address : addresses) {
    ASSIGN_OR_RETURN(ListeningSocket socket, ListeningSocket::Bind(address));
    sockets.push_back(std::move(socket));
  }
  if (sockets.empty()) {
    return absl::InvalidArgumentError("no address to listen on");
  }
  return std::unique_ptr<Listener>(new Listener(
      std::move(sockets), std::move(options), requests, responses, calls));
}

Listener::Listener(std::vector<ListeningSocket> sockets, Options options,
                   Budget& requests, Budget& responses, CallCount& calls)
    : options_(std::move(options)),
      requests_(requests),
      responses_(responses),
      calls_(calls),
      sockets_(std::move(sockets)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  CHECK(epoll_.ok() && wake_.ok());
  Watch(epoll_.get(), wake_.get(), EPOLLIN, Pack(kWake, wake_.get()));
  for (const ListeningSocket& socket : sockets_) {
    addresses_.push_back(socket.address());
  }
  if (options_.tls == nullptr) return;
  handshaker_ = std::make_unique<tls::Handshaker>(tls::Handshaker::Options{
      .max_pending = std::min(kMaxHandshakes, MostHandshakes()),
      .done =
          [this](jit::UniqueFd fd, std::unique_ptr<tls::Session> tls) {
            {
              std::lock_guard lock(mutex_);
              shaken_.push_back({std::move(fd), std::move(tls)});
            }
            Wake();
          },
      .failed =
          [](int fd, const std::string& why) {
            log::Write(log::Level::kInfo, "handshake_failed",
                       {{"peer", PeerOf(fd)}, {"reason", why}});
          }});
}

Listener::~Listener() {
  stopping_ = true;
  Wake();
  if (thread_.joinable()) thread_.join();
  handshaker_.reset();
  std::vector<int> left;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [fd, connection] : connections_) left.push_back(fd);
  }
  for (const int fd : left) Remove(fd);
}

void Listener::Start() {
  for (const ListeningSocket& socket : sockets_) {
    for (const jit::UniqueFd& fd : socket.fds()) {
      Watch(epoll_.get(), fd.get(), EPOLLIN, Pack(kListening, fd.get()));
    }
  }
  thread_ = std::thread(&Listener::Serve, this);
}

void Listener::StopAccepting() {
  accepting_ = false;
  Wake();
}

std::shared_ptr<Connection> Listener::Find(absl::string_view peer) {
  int fd = -1;
  if (!absl::ConsumePrefix(&peer, "fd:") || !absl::SimpleAtoi(peer, &fd)) {
    return nullptr;
  }
  std::lock_guard lock(mutex_);
  const auto found = connections_.find(fd);
  return found == connections_.end() ? nullptr : found->second;
}

void Listener::CutUntaken() {
  std::vector<std::shared_ptr<Connection>> all;  // Cut after the lock.
  {
    std::lock_guard lock(mutex_);
    for (const auto& [fd, connection] : connections_) all.push_back(connection);
  }
  for (const auto& connection : all) {
    if (connection->untaken()) connection->Cut();
  }
}

int64_t Listener::connection_count() {
  std::lock_guard lock(mutex_);
  return connections_.size();
}

void Listener::Wake() {
  const uint64_t one = 1;
  CHECK(write(wake_.get(), &one, sizeof one) == sizeof one || errno == EAGAIN);
}

void Listener::Serve() {
  jit::NameThread("listener");
  while (!stopping_) {
    epoll_event events[64];
    const int count = epoll_wait(epoll_.get(), events, 64, -1);
    for (int i = 0; i < count; ++i) {
      const auto kind = static_cast<Kind>(events[i].data.u64 >> 32);
      const int fd = static_cast<int>(events[i].data.u64 & 0xffffffff);
      if (kind == kConnection) {
        Remove(fd);
      } else if (kind == kListening && accepting_) {
        Accept(fd);
      } else if (kind == kWake) {
        uint64_t wakes;
        while (read(wake_.get(), &wakes, sizeof wakes) > 0) {
        }
        AddShaken();
      }
    }
    if (overrun_.exchange(false)) options_.overrun();
    if (!accepting_) sockets_.clear();
  }
}

bool Listener::LagsBehind() {
  const int64_t most = std::max<int64_t>(4, options_.max_connections / 4);
  const auto lag = [this] { return std::ssize(ended_); };
  if (lag() <= most) return false;  // Whatever of it gRPC has come to.
  std::erase_if(ended_, [now = jit::SteadyNow()](const Ended& one) {
    return SocketOf(one.grpc_fd) != one.socket || now - one.since > kLongestLag;
  });
  return lag() > most;
}

void Listener::Accept(int listening_fd) {
  if (LagsBehind()) {  // Whoever comes waits with the kernel.
    usleep(kLagPauseMs * 1000);
    return;
  }
  if (WaitingToBeClosed() >= kMostGivenWaiting && MayBringGiven(listening_fd)) {
    log::Write(log::Level::kError, "cannot_accept",
               {{"reason",
                 "too many descriptors that clients passed are not closed"}});
    usleep(kPauseMs * 1000);
    return;
  }
  jit::UniqueFd fd(
      accept4(listening_fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd.ok()) {
    if (handshaker_ == nullptr || UserOf(fd.get()).has_value()) {
      return Add(std::move(fd), nullptr);
    }
    return handshaker_->Add(std::move(fd), options_.tls());
  }
  switch (errno) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
      log::Write(log::Level::kError, "cannot_accept",
                 {{"reason", strerror(errno)}});
      // Connections that end give back what is missing. The pause keeps the
      // thread from spinning until then.
      MakeRoom();
      usleep(kPauseMs * 1000);
      break;
    default:  // The client has gone, or there was none.
      break;
  }
}

void Listener::AddShaken() {
  std::vector<Shaken> shaken;
  {
    std::lock_guard lock(mutex_);
    shaken.swap(shaken_);
  }
  if (!accepting_) return;
  for (Shaken& one : shaken) Add(std::move(one.fd), std::move(one.tls));
}

void Listener::Add(jit::UniqueFd fd, std::unique_ptr<tls::Session> tls) {
  const int64_t most = std::min<int64_t>(
      options_.max_connections, MostConnections(handshaker_ != nullptr));
  while (connection_count() >= most) {
    if (!MakeRoom()) {
      log::Write(log::Level::kWarning, "connection_refused",
                 {{"peer", PeerOf(fd.get())}, {"connections", most}});
      if (UserOf(fd.get())) DropUnread(fd.get());
      return;
    }
  }
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // gRPC's number goes round, so that a call that comes late is not taken for
  // one of the next connection.
  const int descriptors = DescriptorLimit();
  const int first = descriptors / 4;
  next_fd_ =
      next_fd_ < first || next_fd_ + 1 >= descriptors ? first : next_fd_ + 1;
  int grpc_fd = fcntl(fd.get(), F_DUPFD_CLOEXEC, next_fd_);
  if (grpc_fd < 0) grpc_fd = fcntl(fd.get(), F_DUPFD_CLOEXEC, first);
  if (grpc_fd < 0 || grpc_fd >= kCountedDescriptors) {
    log::Write(
        log::Level::kError, "connection_refused",
        {{"peer", PeerOf(fd.get())},
         {"reason", grpc_fd < 0 ? strerror(errno) : "too many descriptors"}});
    if (grpc_fd >= 0) close(grpc_fd);
    if (UserOf(fd.get())) DropUnread(fd.get());
    return;
  }
  next_fd_ = grpc_fd;
  const int own_fd = fd.get();
  Connection::Socket socket;
  socket.peer = PeerOf(own_fd);
  if (const auto user = UserOf(own_fd)) socket.user = user->uid;
  socket.fd = std::move(fd);
  socket.tls = std::move(tls);
  auto connection = std::make_shared<Connection>(
      next_id_++, std::move(socket), requests_, responses_, calls_, [this] {
        overrun_ = true;
        Wake();
      });
  StartCounting(grpc_fd, *connection);
  {
    std::lock_guard lock(mutex_);
    connections_[grpc_fd] = std::move(connection);
  }
  calls_.Connect();
  // Both ends of the socket are shut when gRPC closes it.
  Watch(epoll_.get(), own_fd, EPOLLET, Pack(kConnection, grpc_fd));
  options_.serve(grpc_fd);
}

void Listener::Remove(int grpc_fd) {
  std::shared_ptr<Connection> connection;
  {
    std::lock_guard lock(mutex_);
    const auto found = connections_.find(grpc_fd);
    if (found == connections_.end()) return;
    connection = std::move(found->second);
    connections_.erase(found);
  }
  calls_.Disconnect();
  ended_.push_back({.grpc_fd = grpc_fd,
                    .socket = SocketOf(connection->fd()),
                    .since = jit::SteadyNow()});
  StopCounting(grpc_fd);
  if (connection->user()) DropUnread(connection->fd());
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection->fd(), nullptr);
  if (options_.ended) options_.ended(connection->identity());
}

bool Listener::MakeRoom() {
  int victim = -1;
  {
    std::lock_guard lock(mutex_);
    const Connection* longest = nullptr;
    for (const auto& [fd, connection] : connections_) {
      if (!connection->idle()) continue;
      // Those that never called anything go before the others.
      if (longest == nullptr ||
          std::pair(connection->used(), connection->last_change_ns()) <
              std::pair(longest->used(), longest->last_change_ns())) {
        longest = connection.get();
        victim = fd;
      }
    }
    if (longest == nullptr) return false;
    connections_[victim]->Cut();
  }
  Remove(victim);
  return true;
}

}  // namespace gemmd::rpc
