#include "service/tls/session.h"

#include <errno.h>
#include <openssl/err.h>
#include <string.h>

#include <algorithm>
#include <utility>

#include "jit/base/status.h"

namespace gemmd::tls {
namespace {

constexpr size_t kRecordBytes = 16 << 10;
// New keys and refused renegotiations are work that flow control does not slow
// down; an honest client needs a handful in its life.
constexpr int kMostIdleMessages = 1000;

std::string LastError() {
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  const char* const reason = ERR_reason_error_string(error);
  return reason == nullptr ? "the client has gone" : reason;
}

// From byte `at` of the parts on, up to a record of them: in place where they
// are large, else gathered in `buffer`.
absl::Span<const char> NextRecord(const msghdr& message, size_t at,
                                  char* buffer) {
  size_t gathered = 0;
  for (size_t i = 0; i < message.msg_iovlen; ++i) {
    const iovec& part = message.msg_iov[i];
    if (at >= part.iov_len) {
      at -= part.iov_len;
      continue;
    }
    const char* const from = static_cast<const char*>(part.iov_base) + at;
    const size_t size = part.iov_len - at;
    at = 0;
    if (gathered == 0 && size >= kRecordBytes) return {from, kRecordBytes};
    const size_t taken = std::min(size, kRecordBytes - gathered);
    memcpy(buffer + gathered, from, taken);
    gathered += taken;
    if (gathered == kRecordBytes) break;
  }
  return {buffer, gathered};
}

}  // namespace

Session::Session(std::shared_ptr<const Context> context, int fd)
    : context_(std::move(context)), fd_(fd), ssl_(SSL_new(context_->get())) {
  CHECK(ssl_ != nullptr);
  CHECK(SSL_set_fd(ssl_.get(), fd) == 1);
  SSL_set_accept_state(ssl_.get());
  // Nothing is read beyond the handshake, lest gRPC wait for bytes of which the
  // socket says nothing any more.
  SSL_set_read_ahead(ssl_.get(), 0);
  SSL_set_msg_callback(ssl_.get(), Look);
  SSL_set_msg_callback_arg(ssl_.get(), this);
}

void Session::Look(int, int, int type, const void*, size_t, SSL*,
                   void* session) {
  Session& self = *static_cast<Session*>(session);
  if (!self.established_ ||
      (type != SSL3_RT_HANDSHAKE && type != SSL3_RT_ALERT)) {
    return;
  }
  if (++self.idle_messages_ > kMostIdleMessages) {
    shutdown(self.fd_, SHUT_RDWR);
  }
}

Session::Progress Session::Handshake() {
  std::lock_guard lock(mutex_);
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  if (result != 1) {
    switch (SSL_get_error(ssl_.get(), result)) {
      case SSL_ERROR_WANT_READ:
        return Progress::kWantsRead;
      case SSL_ERROR_WANT_WRITE:
        return Progress::kWantsWrite;
      default:
        failure_ = LastError();
        return Progress::kFailed;
    }
  }
  const unsigned char* protocol = nullptr;
  unsigned int size = 0;
  SSL_get0_alpn_selected(ssl_.get(), &protocol, &size);
  if (size == 0) {  // It did not say what it speaks.
    failure_ = "the client does not negotiate h2";
    return Progress::kFailed;
  }
  peer_ = PeerCertificate::Of(ssl_.get());
  SSL_set_read_ahead(ssl_.get(), 1);
  established_ = true;
  return Progress::kDone;
}

ssize_t Session::Failed(int result) {
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      errno = EAGAIN;
      return -1;
    case SSL_ERROR_ZERO_RETURN:
      return 0;
    default:
      ERR_clear_error();
      errno = ECONNRESET;
      return -1;
  }
}

ssize_t Session::Receive(msghdr& message) {
  message.msg_controllen = 0;  // Not even how much more there is.
  message.msg_flags = 0;
  ssize_t received = 0;
  for (size_t i = 0; i < message.msg_iovlen; ++i) {
    const iovec& part = message.msg_iov[i];
    for (size_t at = 0; at < part.iov_len;) {
      std::lock_guard lock(mutex_);
      ERR_clear_error();
      size_t size = 0;
      const int result =
          SSL_read_ex(ssl_.get(), static_cast<char*>(part.iov_base) + at,
                      part.iov_len - at, &size);
      // Who has something comes again, and then learns of the end.
      if (result != 1) return received > 0 ? received : Failed(result);
      at += size;
      received += static_cast<ssize_t>(size);
    }
  }
  return received;
}

ssize_t Session::Send(const msghdr& message) {
  thread_local char buffer[kRecordBytes];
  ssize_t sent = 0;
  while (true) {
    // What did not go is offered again, byte for byte, as OpenSSL demands:
    // gRPC goes on where it was.
    const absl::Span<const char> record =
        NextRecord(message, static_cast<size_t>(sent), buffer);
    if (record.empty()) return sent;
    std::lock_guard lock(mutex_);
    ERR_clear_error();
    size_t size = 0;
    const int result =
        SSL_write_ex(ssl_.get(), record.data(), record.size(), &size);
    if (result != 1) {
      if (sent > 0) return sent;
      const ssize_t failed = Failed(result);
      if (failed == 0) errno = EPIPE;
      return -1;
    }
    sent += static_cast<ssize_t>(size);
  }
}

void Session::Close() {
  std::lock_guard lock(mutex_);
  if (established_) SSL_shutdown(ssl_.get());
  ERR_clear_error();
}

}  // namespace gemmd::tls
