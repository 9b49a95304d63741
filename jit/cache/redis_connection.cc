#include "jit/cache/redis_connection.h"

#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "jit/base/socket_io.h"
#include "jit/base/status.h"

namespace gemmd::jit {
namespace {

// Texts name no address, because they may reach clients.
constexpr char kNoServer[] = "the shared cache cannot be reached";
constexpr size_t kMaxLineBytes = 1024;

absl::StatusOr<UniqueFd> ConnectTo(const sockaddr* address, socklen_t size,
                                   absl::Time deadline) {
  UniqueFd socket(::socket(address->sa_family,
                           SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.ok()) return absl::UnavailableError(kNoServer);
  if (connect(socket.get(), address, size) != 0) {
    if (errno != EINPROGRESS) return absl::UnavailableError(kNoServer);
    RETURN_IF_ERROR(WaitForSocket(socket.get(), POLLOUT, deadline));
    int error = 0;
    socklen_t length = sizeof(error);
    if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 ||
        error != 0) {
      return absl::UnavailableError(kNoServer);
    }
  }
  return socket;
}

absl::StatusOr<UniqueFd> ConnectToPath(const std::string& path,
                                       absl::Time deadline) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::UnavailableError(kNoServer);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return ConnectTo(reinterpret_cast<const sockaddr*>(&address), sizeof(address),
                   deadline);
}

absl::StatusOr<UniqueFd> ConnectToHost(const std::string& address,
                                       absl::Time deadline) {
  const size_t colon = address.rfind(':');
  if (colon == address.npos) return absl::UnavailableError(kNoServer);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(HostOf(address).c_str(), address.c_str() + colon + 1, &hints,
                  &list) != 0) {
    return absl::UnavailableError(kNoServer);
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list,
                                                             freeaddrinfo);
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    absl::StatusOr<UniqueFd> socket =
        ConnectTo(at->ai_addr, at->ai_addrlen, deadline);
    if (!socket.ok()) continue;
    const int on = 1;
    setsockopt(socket->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return socket;
  }
  return absl::UnavailableError(kNoServer);
}

// What an error reply means. Its first word names its kind; the rest of it is
// the server's and stays here.
absl::Status ReportedError(absl::string_view text) {
  const auto* const end =
      std::find_if_not(text.begin(), text.end(), absl::ascii_isupper);
  const absl::string_view kind = text.substr(0, end - text.begin());
  if (kind == "NOAUTH" || kind == "WRONGPASS" || kind == "NOPERM") {
    return absl::PermissionDeniedError(absl::StrCat(
        "the shared cache wants another user or password (", kind, ")"));
  }
  // A server that is full, starts, or is another one's copy damages nothing.
  return absl::FailedPreconditionError(
      absl::StrCat("the shared cache reports an error (", kind, ")"));
}

}  // namespace

absl::Status RedisConnection::Connect(absl::Time deadline) {
  absl::string_view path = server_.address;
  const bool local = absl::ConsumePrefix(&path, "unix:");
  UniqueFd socket;
  if (local) {
    ASSIGN_OR_RETURN(socket, ConnectToPath(std::string(path), deadline));
  } else {
    ASSIGN_OR_RETURN(socket, ConnectToHost(server_.address, deadline));
  }
  if (server_.tls) {
    ASSIGN_OR_RETURN(stream_,
                     TlsStream(std::move(socket), HostOf(server_.address),
                               server_.ca_file, deadline));
  } else {
    stream_ = PlainStream(std::move(socket));
  }
  if (server_.password.empty()) return absl::OkStatus();
  std::vector<std::string> command = {"AUTH", server_.user, server_.password};
  if (server_.user.empty()) command.erase(command.begin() + 1);
  return Exchange(command, kMaxLineBytes, deadline).status();
}

absl::StatusOr<std::string> RedisConnection::ReceiveLine(absl::Time deadline) {
  // By the byte, so that what follows stays in the socket; lines are short.
  std::string line;
  while (!absl::EndsWith(line, "\r\n")) {
    if (line.size() >= kMaxLineBytes) {
      return absl::DataLossError("the shared cache does not speak RESP");
    }
    char byte;
    RETURN_IF_ERROR(stream_->Receive(&byte, 1, deadline));
    line.push_back(byte);
  }
  line.resize(line.size() - 2);
  return line;
}

absl::StatusOr<std::string> RedisConnection::Exchange(
    const std::vector<std::string>& arguments, int64_t limit_bytes,
    absl::Time deadline) {
  std::string request = absl::StrCat("*", arguments.size(), "\r\n");
  for (const std::string& argument : arguments) {
    absl::StrAppend(&request, "$", argument.size(), "\r\n", argument, "\r\n");
  }
  RETURN_IF_ERROR(stream_->Send(request, deadline));
  ASSIGN_OR_RETURN(const std::string line, ReceiveLine(deadline));
  const absl::string_view rest =
      absl::string_view(line).substr(line.empty() ? 0 : 1);
  switch (line.empty() ? '\0' : line[0]) {
    case '+':
    case ':':
      return std::string(rest);
    case '-':
      return ReportedError(rest);
    case '$':
      break;
    default:
      return absl::DataLossError("the shared cache does not speak RESP");
  }
  int64_t length = 0;
  if (!absl::SimpleAtoi(rest, &length) || length < -1 || length > limit_bytes) {
    return absl::DataLossError("the shared cache sends too much");
  }
  if (length == -1) return absl::NotFoundError("the shared cache has it not");
  std::string bytes(static_cast<size_t>(length) + 2, '\0');
  RETURN_IF_ERROR(stream_->Receive(bytes.data(), bytes.size(), deadline));
  bytes.resize(static_cast<size_t>(length));
  return bytes;
}

absl::StatusOr<std::string> RedisConnection::Command(
    const std::vector<std::string>& arguments, int64_t limit_bytes,
    absl::Time deadline) {
  const bool kept = stream_ != nullptr;
  const auto attempt = [&]() -> absl::StatusOr<std::string> {
    if (stream_ == nullptr) RETURN_IF_ERROR(Connect(deadline));
    return Exchange(arguments, limit_bytes, deadline);
  };
  absl::StatusOr<std::string> reply = attempt();
  // A connection that was kept may have been closed meanwhile.
  if (kept && absl::IsUnavailable(reply.status())) {
    stream_.reset();
    reply = attempt();
  }
  // After a failure the next bytes may belong to the old reply.
  if (!reply.ok() && !absl::IsNotFound(reply.status())) stream_.reset();
  return reply;
}

}  // namespace gemmd::jit
