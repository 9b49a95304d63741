// HTTP by hand, for tests of what answers it.
#ifndef GEMMD_TESTS_SERVICE_MONITOR_HTTP_CLIENT_H_
#define GEMMD_TESTS_SERVICE_MONITOR_HTTP_CLIENT_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "jit/base/file.h"

namespace gemmd::testing {

// To "127.0.0.1:4242". Not ok where nobody listens.
inline jit::UniqueFd ConnectTo(const std::string& address) {
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  int port = 0;
  (void)absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port);
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  jit::UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) {
    return jit::UniqueFd();
  }
  return fd;
}

inline bool Send(const jit::UniqueFd& fd, absl::string_view bytes) {
  return send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

// Until the other side closes, or for `limit`.
inline std::string ReceiveAll(const jit::UniqueFd& fd,
                              absl::Duration limit = absl::Seconds(30)) {
  const absl::Time end = absl::Now() + limit;
  std::string all;
  char buffer[4096];
  while (absl::Now() < end) {
    pollfd ready = {.fd = fd.get(), .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, 100) <= 0) continue;
    const ssize_t got = recv(fd.get(), buffer, sizeof buffer, 0);
    if (got <= 0) return all;
    all.append(buffer, static_cast<size_t>(got));
  }
  return absl::StrCat(all, "[still open]");
}

// The whole answer, headers too.
inline std::string Fetch(const std::string& address, absl::string_view path,
                         absl::string_view method = "GET",
                         absl::string_view host = "localhost") {
  const jit::UniqueFd fd = ConnectTo(address);
  Send(fd, absl::StrCat(method, " ", path, " HTTP/1.1\r\nHost: ", host,
                        "\r\n\r\n"));
  return ReceiveAll(fd);
}

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_SERVICE_MONITOR_HTTP_CLIENT_H_
