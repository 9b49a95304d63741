// What gRPC moves over a connection, counted and looked at where it enters and
// leaves the process.
//
// This takes the place of recvmsg and sendmsg, which gRPC calls for every
// byte: the program's definitions come before the C library's, to which they
// pass everything on. Descriptors that nobody asked to count are untouched.
//
// Descriptors that come by a Unix socket are taken in here, lest the kernel
// close them on gRPC's thread (given_fd.h), and who sends some is not listened
// to.
//
// It is also where TLS ends: gRPC 1.51 takes foreign descriptors for plaintext
// alone, so what it receives is decrypted here, and what it sends encrypted,
// without another thread, copy or descriptor. Rejected:
// - a pair of sockets and threads that pump between them: two descriptors and
//   buffers a connection, a hop each way, and what the kernel tells of the line
//   (how much is unread, untaken) is no longer told of the client's;
// - kernel TLS: many kernels lack the module, and 3.0 of OpenSSL receives no
//   TLS 1.3 by it;
// - gRPC's own listener with its credentials: it never comes back from being
//   out of descriptors, and its bytes could not be counted.
#ifndef GEMMD_SERVICE_RPC_TRAFFIC_H_
#define GEMMD_SERVICE_RPC_TRAFFIC_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/types/span.h"
#include "service/tls/session.h"

namespace gemmd::rpc {

// Descriptors from here on are not counted.
inline constexpr int kCountedDescriptors = 1 << 16;

// The counters of one connection. Thread-safe.
class Traffic {
 public:
  // `tls` is null for plaintext.
  explicit Traffic(std::unique_ptr<tls::Session> tls = nullptr)
      : tls_(std::move(tls)) {}

  tls::Session* tls() const { return tls_.get(); }
  int64_t received() const { return received_.load(std::memory_order_relaxed); }
  int64_t sent() const { return sent_.load(std::memory_order_relaxed); }

  // Both in order, each on one thread at a time; what is received, before gRPC
  // sees it.
  void Received(absl::Span<const char> bytes) {
    received_.fetch_add(bytes.size(), std::memory_order_relaxed);
    LookAtReceived(bytes);
  }
  void Sent(absl::Span<const char> bytes) {
    sent_.fetch_add(bytes.size(), std::memory_order_relaxed);
    LookAtSent(bytes);
  }
  // Whether the peer may no longer be listened to.
  bool deaf() const { return deaf_.load(std::memory_order_relaxed); }
  void MakeDeaf() { deaf_.store(true, std::memory_order_relaxed); }

 protected:
  ~Traffic() = default;

  virtual void LookAtReceived(absl::Span<const char> bytes) = 0;
  virtual void LookAtSent(absl::Span<const char> bytes) = 0;

 private:
  const std::unique_ptr<tls::Session> tls_;
  std::atomic<int64_t> received_ = 0;
  std::atomic<int64_t> sent_ = 0;
  std::atomic<bool> deaf_ = false;
};

// From now on `fd` counts for `traffic`; until StopCounting has returned.
void StartCounting(int fd, Traffic& traffic);
void StopCounting(int fd);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_TRAFFIC_H_
