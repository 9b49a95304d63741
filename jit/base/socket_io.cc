#include "jit/base/socket_io.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "jit/base/file.h"
#include "jit/base/status.h"
#include "jit/base/steady_time.h"

namespace gemmd::jit {
namespace {

bool IsTransient(int error) {
  return error == EINTR || error == EAGAIN || error == EWOULDBLOCK;
}

}  // namespace

absl::Status WaitForSocket(int socket, short events, absl::Time deadline) {
  while (true) {
    pollfd poll_fd = {.fd = socket, .events = events, .revents = 0};
    int left_ms = -1;
    if (deadline != absl::InfiniteFuture()) {
      left_ms = static_cast<int>(std::clamp<int64_t>(
          absl::ToInt64Milliseconds(
              absl::Ceil(deadline - SteadyNow(), absl::Milliseconds(1))),
          0, 1 << 30));
    }
    const int ready = poll(&poll_fd, 1, left_ms);
    if (ready > 0) return absl::OkStatus();
    if (ready == 0) return absl::DeadlineExceededError("no answer in time");
    if (errno != EINTR) return ErrnoStatus(errno, "wait");
  }
}

absl::Status ReceiveExactly(int socket, absl::Time deadline, char* to,
                            size_t size) {
  while (size > 0) {
    RETURN_IF_ERROR(WaitForSocket(socket, POLLIN, deadline));
    const ssize_t got = recv(socket, to, size, MSG_DONTWAIT);
    if (got < 0 && IsTransient(errno)) continue;
    if (got <= 0) return absl::UnavailableError("the other side is gone");
    to += got;
    size -= static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

absl::Status SendExactly(int socket, absl::Time deadline,
                         absl::string_view bytes) {
  while (!bytes.empty()) {
    RETURN_IF_ERROR(WaitForSocket(socket, POLLOUT, deadline));
    const ssize_t put =
        send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put < 0 && IsTransient(errno)) continue;
    if (put < 0) return absl::UnavailableError("the other side is gone");
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return absl::OkStatus();
}

}  // namespace gemmd::jit
