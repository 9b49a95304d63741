#include "service/monitor/http_server.h"

#include <fcntl.h>
#include <microhttpd.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "jit/base/file.h"
#include "jit/base/status.h"
#include "service/rpc/address.h"
#include "service/rpc/listening_socket.h"

namespace gemmd::monitor {
namespace {

using Clock = std::chrono::steady_clock;  // Nobody sets it.

constexpr size_t kConnectionBytes = 16 << 10;
// Between two looks at connections that last too long.
constexpr int kSweepMs = 250;
// Of 40: whoever multiplies goes first.
constexpr int kNiceness = 10;

struct StopDaemon {
  void operator()(MHD_Daemon* daemon) const { MHD_stop_daemon(daemon); }
};
struct FreeResponse {
  void operator()(MHD_Response* response) const {
    MHD_destroy_response(response);
  }
};

HttpResponse Text(int code, const char* text) {
  return {code, "text/plain; charset=utf-8", text};
}

// The values of all headers Host, "Host :" too, without the blanks around them
// (RFC 9110, 5.5).
std::vector<std::string> HostsOf(MHD_Connection* connection) {
  std::vector<std::string> hosts;
  const auto take = [](void* to, MHD_ValueKind, const char* name,
                       const char* value) {
    if (absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(name), "Host")) {
      static_cast<std::vector<std::string>*>(to)->emplace_back(
          absl::StripAsciiWhitespace(value == nullptr ? "" : value));
    }
    return MHD_YES;
  };
  MHD_get_connection_values(connection, MHD_HEADER_KIND, take, &hosts);
  return hosts;
}

// What a request is for: host and path of "http://host/path", whatever its
// header says (RFC 9112, 3.2.2), or "/path" of the host in that.
struct Target {
  std::optional<std::string> host;
  absl::string_view path;
};

Target TargetOf(absl::string_view asked,
                const std::vector<std::string>& hosts) {
  constexpr absl::string_view kScheme = "http://";
  if (!absl::StartsWithIgnoreCase(asked, kScheme)) {
    return {hosts.empty() ? std::nullopt : std::optional(hosts.front()), asked};
  }
  asked.remove_prefix(kScheme.size());
  const size_t end = std::min(asked.find('/'), asked.size());
  const absl::string_view path = asked.substr(end);
  return {std::string(asked.substr(0, end)), path.empty() ? "/" : path};
}

// Whether somebody could have meant a host by it.
bool MayBeHost(absl::string_view host) {
  return absl::c_all_of(host, absl::ascii_isgraph) &&
         !absl::StrContains(host, '@');
}

bool IsLoopback(const std::string& host) {
  return !rpc::IsUnix(host) && rpc::IsLocal(host);
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(rpc::ListeningSocket socket, Handler handler)
      : socket_(std::move(socket)),
        handler_(std::move(handler)),
        local_only_(!rpc::IsUnix(socket_.address()) &&
                    rpc::IsLocal(socket_.address())) {}
  ~Impl();

  absl::Status Start();
  const std::string& address() const { return socket_.address(); }

 private:
  static MHD_Result Handle(void* self, MHD_Connection* connection,
                           const char* path, const char* method,
                           const char* version, const char* body,
                           size_t* body_bytes, void** request);
  static void Note(void* self, MHD_Connection* connection, void** socket,
                   MHD_ConnectionNotificationCode what);

  HttpResponse Answer(MHD_Connection* connection, absl::string_view method,
                      absl::string_view path, absl::string_view version);
  void Serve();
  void EndOldConnections();

  rpc::ListeningSocket socket_;
  const Handler handler_;
  const bool local_only_;
  jit::UniqueFd stop_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  // Of the thread, once it runs: descriptors of connections, and when they
  // began; one daemon for each listening descriptor.
  std::map<int, Clock::time_point> connections_;
  std::vector<std::unique_ptr<MHD_Daemon, StopDaemon>> daemons_;
  std::thread thread_;
};

absl::Status HttpServer::Impl::Start() {
  for (const jit::UniqueFd& fd : socket_.fds()) {
    // The daemon closes what it is given.
    const int own = fcntl(fd.get(), F_DUPFD_CLOEXEC, 0);
    if (own < 0) return jit::ErrnoStatus(errno, "copy a listening socket");
    MHD_Daemon* const daemon = MHD_start_daemon(
        MHD_USE_EPOLL, 0, nullptr, nullptr, &Handle, this,
        MHD_OPTION_LISTEN_SOCKET, own, MHD_OPTION_CONNECTION_LIMIT,
        static_cast<unsigned>(kMaxConnections),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionBytes,
        MHD_OPTION_NOTIFY_CONNECTION, &Note, this, MHD_OPTION_END);
    if (daemon == nullptr) {
      close(own);
      return absl::UnavailableError("the HTTP server does not start");
    }
    daemons_.emplace_back(daemon);
  }
  thread_ = std::thread([this] { Serve(); });
  return absl::OkStatus();
}

HttpServer::Impl::~Impl() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void HttpServer::Impl::Serve() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNiceness);
  std::vector<pollfd> ready = {{stop_.get(), POLLIN, 0}};
  for (const auto& daemon : daemons_) {
    const auto* info =
        MHD_get_daemon_info(daemon.get(), MHD_DAEMON_INFO_EPOLL_FD);
    ready.push_back({info->epoll_fd, POLLIN, 0});
  }
  while (ready[0].revents == 0) {
    int wait_ms = kSweepMs;
    for (const auto& daemon : daemons_) {
      MHD_UNSIGNED_LONG_LONG most_ms;
      if (MHD_get_timeout(daemon.get(), &most_ms) == MHD_YES) {
        wait_ms = static_cast<int>(
            std::min<MHD_UNSIGNED_LONG_LONG>(wait_ms, most_ms));
      }
    }
    poll(ready.data(), ready.size(), wait_ms);
    for (const auto& daemon : daemons_) MHD_run(daemon.get());
    EndOldConnections();
  }
  daemons_.clear();
}

void HttpServer::Impl::EndOldConnections() {
  std::vector<std::pair<Clock::time_point, int>> oldest;
  for (const auto& [fd, since] : connections_) oldest.emplace_back(since, fd);
  std::sort(oldest.begin(), oldest.end());
  const Clock::time_point limit =
      Clock::now() - absl::ToChronoNanoseconds(kMaxTime);
  // Those that were shut down before are counted until the server has come to
  // them: there is room for as many more as it accepts meanwhile.
  int left = static_cast<int>(oldest.size());
  for (const auto& [since, fd] : oldest) {
    if (since >= limit && left <= kMaxConnections / 2) break;
    shutdown(fd, SHUT_RDWR);
    --left;
  }
}

void HttpServer::Impl::Note(void* self, MHD_Connection* connection, void**,
                            MHD_ConnectionNotificationCode what) {
  Impl& impl = *static_cast<Impl*>(self);
  const int fd =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)
          ->connect_fd;
  if (what == MHD_CONNECTION_NOTIFY_STARTED) {
    impl.connections_[fd] = Clock::now();
  } else {
    impl.connections_.erase(fd);
  }
}

HttpResponse HttpServer::Impl::Answer(MHD_Connection* connection,
                                      absl::string_view method,
                                      absl::string_view path,
                                      absl::string_view version) {
  if (method != "GET" && method != "HEAD") {
    return Text(405, "allowed: GET, HEAD\n");
  }
  const std::vector<std::string> hosts = HostsOf(connection);
  if (hosts.size() > 1) return Text(400, "allowed: one Host\n");
  const Target target = TargetOf(path, hosts);
  // Who speaks HTTP/1.0, which no browser does, need not name a host.
  if (!target.host && version == MHD_HTTP_VERSION_1_0) return handler_(path);
  const std::string host = target.host.value_or("");
  if (!MayBeHost(host)) return Text(400, "allowed: the name of a host\n");
  if (local_only_ && !IsLoopback(host)) {
    return Text(421, "this address is for loopback hosts\n");
  }
  return handler_(target.path);
}

MHD_Result HttpServer::Impl::Handle(void* self, MHD_Connection* connection,
                                    const char* path, const char* method,
                                    const char* version, const char*, size_t*,
                                    void**) {
  const HttpResponse answer =
      static_cast<Impl*>(self)->Answer(connection, method, path, version);
  const std::unique_ptr<MHD_Response, FreeResponse> response(
      MHD_create_response_from_buffer(answer.body.size(),
                                      const_cast<char*>(answer.body.data()),
                                      MHD_RESPMEM_MUST_COPY));
  if (response == nullptr) return MHD_NO;
  const std::pair<const char*, const char*> headers[] = {
      {"Content-Type", answer.type.c_str()},
      {"Connection", "close"},
      {"Cache-Control", "no-store"},
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; "
       "connect-src 'self'; base-uri 'none'; form-action 'none'; "
       "frame-ancestors 'none'"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Referrer-Policy", "no-referrer"},
      {"X-Content-Type-Options", "nosniff"}};
  for (const auto& [name, value] : headers) {
    MHD_add_response_header(response.get(), name, value);
  }
  return MHD_queue_response(connection, static_cast<unsigned>(answer.code),
                            response.get());
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    const std::string& address, Handler handler) {
  ASSIGN_OR_RETURN(rpc::ListeningSocket socket,
                   rpc::ListeningSocket::Bind(address));
  auto impl = std::make_unique<Impl>(std::move(socket), std::move(handler));
  RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

const std::string& HttpServer::address() const { return impl_->address(); }

}  // namespace gemmd::monitor
