#include "jit/base/stream.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "jit/base/file.h"
#include "jit/base/socket_io.h"
#include "jit/base/status.h"

namespace gemmd::jit {
namespace {

class Plain final : public Stream {
 public:
  explicit Plain(UniqueFd socket) : socket_(std::move(socket)) {}

  absl::Status Receive(char* to, size_t size, absl::Time deadline) override {
    return ReceiveExactly(socket_.get(), deadline, to, size);
  }
  absl::Status Send(absl::string_view bytes, absl::Time deadline) override {
    return SendExactly(socket_.get(), deadline, bytes);
  }

 private:
  const UniqueFd socket_;
};

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using Context = std::unique_ptr<SSL_CTX, FreeContext>;

// What a client trusts the authorities in `ca_file` by, empty for those of the
// system; null when they cannot be read.
Context Read(const std::string& ca_file) {
  Context context(SSL_CTX_new(TLS_client_method()));
  CHECK(context != nullptr);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  const int trusted =
      ca_file.empty()
          ? SSL_CTX_set_default_verify_paths(context.get())
          : SSL_CTX_load_verify_file(context.get(), ca_file.c_str());
  ERR_clear_error();
  return trusted == 1 ? std::move(context) : nullptr;
}

// The same. A file is read anew, since it may have been replaced; those of the
// system are so many that a connection would not be there in time.
Context Trusting(const std::string& ca_file) {
  if (!ca_file.empty()) return Read(ca_file);
  static SSL_CTX* const system = Read("").release();
  if (system != nullptr) SSL_CTX_up_ref(system);
  return Context(system);
}

struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};

// While it lives, writing to a connection that the other side closed is an
// error of this thread and no signal to the process. OpenSSL cannot be told.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoPipeSignal() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    const timespec at_once = {};
    while (sigtimedwait(&pipe_, nullptr, &at_once) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_, before_;
};

class Tls final : public Stream {
 public:
  explicit Tls(UniqueFd socket) : socket_(std::move(socket)) {}

  absl::Status Connect(const std::string& host, const std::string& ca_file,
                       absl::Time deadline) {
    context_ = Trusting(ca_file);
    if (context_ == nullptr) {
      return absl::UnauthenticatedError(
          "the file of trusted authorities cannot be read");
    }
    ssl_.reset(SSL_new(context_.get()));
    CHECK(ssl_ != nullptr);
    SSL_set_fd(ssl_.get(), socket_.get());
    in6_addr address;
    const bool is_address = inet_pton(AF_INET, host.c_str(), &address) == 1 ||
                            inet_pton(AF_INET6, host.c_str(), &address) == 1;
    if (is_address) {
      X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), host.c_str());
    } else {
      SSL_set_tlsext_host_name(ssl_.get(), host.c_str());
      SSL_set1_host(ssl_.get(), host.c_str());
    }
    return Repeat(deadline, [this] { return SSL_connect(ssl_.get()); });
  }

  absl::Status Receive(char* to, size_t size, absl::Time deadline) override {
    while (size > 0) {
      int got = 0;
      RETURN_IF_ERROR(Repeat(deadline, [&] {
        return got =
                   SSL_read(ssl_.get(), to,
                            static_cast<int>(std::min<size_t>(size, INT_MAX)));
      }));
      to += got;
      size -= static_cast<size_t>(got);
    }
    return absl::OkStatus();
  }

  absl::Status Send(absl::string_view bytes, absl::Time deadline) override {
    while (!bytes.empty()) {
      int put = 0;
      RETURN_IF_ERROR(Repeat(deadline, [&] {
        return put = SSL_write(
                   ssl_.get(), bytes.data(),
                   static_cast<int>(std::min<size_t>(bytes.size(), INT_MAX)));
      }));
      bytes.remove_prefix(static_cast<size_t>(put));
    }
    return absl::OkStatus();
  }

 private:
  // Calls `step` until it succeeds, waiting for the socket as TLS asks.
  template <typename Step>
  absl::Status Repeat(absl::Time deadline, Step step) {
    const NoPipeSignal no_pipe_signal;
    while (true) {
      ERR_clear_error();
      const int result = step();
      if (result > 0) return absl::OkStatus();
      switch (SSL_get_error(ssl_.get(), result)) {
        case SSL_ERROR_WANT_READ:
          RETURN_IF_ERROR(WaitForSocket(socket_.get(), POLLIN, deadline));
          break;
        case SSL_ERROR_WANT_WRITE:
          RETURN_IF_ERROR(WaitForSocket(socket_.get(), POLLOUT, deadline));
          break;
        default:
          return Failure();
      }
    }
  }

  absl::Status Failure() const {
    ERR_clear_error();
    if (SSL_get_verify_result(ssl_.get()) != X509_V_OK) {
      return absl::UnauthenticatedError(
          "the other side's certificate is not to be trusted");
    }
    return absl::UnavailableError("the other side is gone");
  }

  const UniqueFd socket_;
  Context context_;
  std::unique_ptr<SSL, FreeSsl> ssl_;
};

}  // namespace

std::unique_ptr<Stream> PlainStream(UniqueFd socket) {
  return std::make_unique<Plain>(std::move(socket));
}

absl::Status CheckAuthorities(const std::string& ca_file) {
  if (Trusting(ca_file) != nullptr) return absl::OkStatus();
  if (ca_file.empty()) {
    return absl::NotFoundError("the system trusts no authorities");
  }
  constexpr int64_t kMostBytes = 64 << 20;
  RETURN_IF_ERROR(ReadFile(ca_file, kMostBytes).status());
  return absl::InvalidArgumentError("it holds no certificates in PEM");
}

absl::StatusOr<std::unique_ptr<Stream>> TlsStream(UniqueFd socket,
                                                  const std::string& host,
                                                  const std::string& ca_file,
                                                  absl::Time deadline) {
  auto tls = std::make_unique<Tls>(std::move(socket));
  RETURN_IF_ERROR(tls->Connect(host, ca_file, deadline));
  return tls;
}

}  // namespace gemmd::jit
