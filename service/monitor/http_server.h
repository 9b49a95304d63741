// A small HTTP server for people and machines that look on: GET and HEAD of a
// few pages, made by one thread that yields to the work of the daemon.
//
// On libmicrohttpd, and not on the civetweb of prometheus-cpp: that has a
// thread for each client, so that as many silent ones as it has threads keep
// everybody else out. Here all connections wait in one epoll. There are at most
// kMaxConnections of them, of 16 KiB each, and each one ends after kMaxTime
// whatever its client does. When half of them are taken the oldest makes room
// for who comes: clients ask as soon as they are connected, and are answered
// at once, so that who is still there neither asks nor reads.
//
// Where it listens on loopback, requests name a loopback host, in the target
// or else as Host, or by HTTP/1.0 none: a page of a stranger, whose name was
// made to lead here, reads nothing through a browser. Requests with several
// Hosts are refused everywhere. A Host ends at a NUL, which no browser sends:
// libmicrohttpd tells nobody what follows it.
#ifndef GEMMD_SERVICE_MONITOR_HTTP_SERVER_H_
#define GEMMD_SERVICE_MONITOR_HTTP_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gemmd::monitor {

struct HttpResponse {
  int code = 200;
  std::string type;  // "text/html; charset=utf-8".
  std::string body;
};

class HttpServer {
 public:
  // Called on the server's thread with a path ("/metrics"), one at a time.
  using Handler = std::function<HttpResponse(absl::string_view path)>;

  static constexpr int kMaxConnections = 64;
  static constexpr absl::Duration kMaxTime = absl::Seconds(10);

  // `address` is one as of --listen. Errors are those of
  // rpc::ListeningSocket::Bind.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const std::string& address, Handler handler);
  // Ends all connections.
  ~HttpServer();

  // With the port that was bound.
  const std::string& address() const;

 private:
  class Impl;

  explicit HttpServer(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace gemmd::monitor

#endif  // GEMMD_SERVICE_MONITOR_HTTP_SERVER_H_
