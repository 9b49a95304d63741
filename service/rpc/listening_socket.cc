#include "service/rpc/listening_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <memory>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "jit/base/status.h"
#include "service/rpc/address.h"
#include "service/rpc/given_fd.h"

namespace gemmd::rpc {
namespace {

// Connections that the kernel completes before they are accepted.
constexpr int kBacklog = 1024;

// Of the file of a Unix socket: to connect is to write.
constexpr mode_t kUnixMode = 0666;

absl::Status CannotListen(const std::string& address, int error) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", address, ": ", strerror(error)));
}

// What lies on the path of a Unix socket and is none: somebody else's.
absl::Status IsTaken(const std::string& address, mode_t mode) {
  const absl::string_view what = S_ISDIR(mode)   ? "a folder"
                                 : S_ISLNK(mode) ? "a link"
                                 : S_ISREG(mode) ? "a file"
                                                 : "a pipe or device";
  return absl::FailedPreconditionError(absl::StrCat(
      "cannot listen on ", address, ": there is ", what,
      "; allowed: a path where nothing is, or a socket that nobody serves"));
}

jit::UniqueFd NewSocket(int family) {
  return jit::UniqueFd(
      socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

int PortOf(const jit::UniqueFd& fd) {
  sockaddr_storage bound = {};
  socklen_t size = sizeof bound;
  getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &size);
  return ntohs(bound.ss_family == AF_INET6
                   ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                   : reinterpret_cast<sockaddr_in&>(bound).sin_port);
}

void SetPort(sockaddr* address, int port) {
  if (address->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(port);
  }
}

// Whether the machine has no such address: localhost is ::1 too where there is
// no IPv6.
bool IsMissing(int error) {
  return error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
}

// 0, or the errno of why `fd`, a new socket, does not listen at `address`.
int Listen(const jit::UniqueFd& fd, const addrinfo& address, bool v6_only) {
  if (!fd.ok()) return errno;
  const int on = 1;
  const int only = v6_only;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.ai_family == AF_INET6) {
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
  }
  const bool listens =
      bind(fd.get(), address.ai_addr, address.ai_addrlen) == 0 &&
      listen(fd.get(), kBacklog) == 0;
  return listens ? 0 : errno;
}

// Whether somebody answers on the Unix socket.
bool IsAlive(const sockaddr_un& address) {
  const jit::UniqueFd fd = NewSocket(AF_UNIX);
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                 sizeof address) == 0 ||
         errno == EAGAIN;  // Its backlog is full.
}

}  // namespace

absl::StatusOr<ListeningSocket> ListeningSocket::Bind(
    const std::string& address, bool takes_descriptors) {
  ListeningSocket socket(address);
  RETURN_IF_ERROR(IsUnix(address) ? socket.BindUnix(takes_descriptors)
                                  : socket.BindTcp());
  return socket;
}

ListeningSocket::~ListeningSocket() {
  if (file_.ok() && Names(path_, file_)) unlink(path_.c_str());
}

absl::Status ListeningSocket::BindUnix(bool takes_descriptors) {
  const std::string path = PathOf(address_);
  sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = {}};
  if (path.empty() || path.size() >= sizeof name.sun_path) {
    return absl::InvalidArgumentError(
        absl::StrCat(address_, " has a path of ", path.size(),
                     " bytes; allowed: 1 to ", sizeof name.sun_path - 1));
  }
  path.copy(name.sun_path, path.size());
  ASSIGN_OR_RETURN(SocketLock lock, SocketLock::Take(name.sun_path));
  lock_.emplace(std::move(lock));
  struct stat status;
  if (lstat(name.sun_path, &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) return IsTaken(address_, status.st_mode);
    if (IsAlive(name)) return CannotListen(address_, EADDRINUSE);
    unlink(name.sun_path);
  }
  jit::UniqueFd fd = NewSocket(AF_UNIX);
  if (!takes_descriptors) RefuseGiven(fd.get());
  // Who may connect, the folder decides, whatever the umask takes away: nobody
  // else could but the daemon's user. Until it listens, nobody can.
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) != 0 ||
      fchmodat(AT_FDCWD, name.sun_path, kUnixMode, AT_SYMLINK_NOFOLLOW) != 0 ||
      listen(fd.get(), kBacklog) != 0) {
    return CannotListen(address_, errno);
  }
  path_ = path;
  file_ = jit::UniqueFd(open(name.sun_path, O_PATH | O_NOFOLLOW | O_CLOEXEC));
  fds_.push_back(std::move(fd));
  return absl::OkStatus();
}

absl::Status ListeningSocket::BindTcp() {
  const size_t colon = address_.rfind(':');
  int port = -1;
  if (colon == std::string::npos ||
      !absl::SimpleAtoi(address_.substr(colon + 1), &port) || port < 0 ||
      port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", address_,
                     "\" is no address; allowed: "
                     "HOST:PORT with a port of 0 to 65535, or unix:PATH"));
  }
  const std::string host = HostOf(address_);
  addrinfo hints = {};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(host.empty() ? nullptr : host.c_str(), "0", &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address_, ": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found,
                                                                 freeaddrinfo);
  // Of several addresses those of IPv4 have sockets of their own.
  const bool v6_only = found->ai_next != nullptr;
  std::set<std::string> seen;  // A name may have an address twice.
  int missing = EADDRNOTAVAIL;
  for (; found != nullptr; found = found->ai_next) {
    const std::string bytes(reinterpret_cast<const char*>(found->ai_addr),
                            found->ai_addrlen);
    if (!seen.insert(bytes).second) continue;
    SetPort(found->ai_addr, port);
    jit::UniqueFd fd = NewSocket(found->ai_family);
    const int error = Listen(fd, *found, v6_only);
    if (IsMissing(error)) {
      missing = error;
      continue;
    }
    // With a part of its addresses a name would lead clients elsewhere.
    if (error != 0) return CannotListen(address_, error);
    if (port == 0) port = PortOf(fd);  // The others get the same.
    fds_.push_back(std::move(fd));
  }
  if (fds_.empty()) return CannotListen(address_, missing);
  address_ = WithPort(address_, port);
  return absl::OkStatus();
}

}  // namespace gemmd::rpc
