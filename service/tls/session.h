// One TLS connection over a socket that does not block: first a handshake, then
// bytes as recvmsg and sendmsg would move them. gRPC reads and writes on
// threads of its own choice, and OpenSSL takes one at a time. Thread-safe.
//
// SIGPIPE is ignored by the process.
#ifndef GEMMD_SERVICE_TLS_SESSION_H_
#define GEMMD_SERVICE_TLS_SESSION_H_

#include <sys/socket.h>

#include <memory>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "service/tls/context.h"
#include "service/tls/handles.h"
#include "service/tls/peer_certificate.h"

namespace gemmd::tls {

class Session {
 public:
  // `fd` outlives the session, which does not close it.
  Session(std::shared_ptr<const Context> context, int fd);

  enum class Progress { kDone, kWantsRead, kWantsWrite, kFailed };
  // Goes on as far as the socket allows.
  Progress Handshake();
  // Why the handshake has failed, in OpenSSL's words.
  const std::string& failure() const { return failure_; }
  // After the handshake; null when the client has shown none.
  PeerCertificate* peer() const { return peer_.get(); }

  // As the functions of the C library, errno included.
  ssize_t Receive(msghdr& message);
  ssize_t Send(const msghdr& message);
  // Tells the client, if the socket takes it, that nothing more comes.
  void Close();

 private:
  static void Look(int is_sent, int version, int type, const void* bytes,
                   size_t size, SSL* ssl, void* session);
  // Sets errno for what SSL_read or SSL_write returned.
  ssize_t Failed(int result);

  const std::shared_ptr<const Context> context_;
  const int fd_;
  std::mutex mutex_;
  const UniqueSsl ssl_ ABSL_GUARDED_BY(mutex_);
  bool established_ = false;
  int idle_messages_ = 0;  // Since the handshake; of the one who reads.
  std::string failure_;
  std::unique_ptr<PeerCertificate> peer_;
};

}  // namespace gemmd::tls

#endif  // GEMMD_SERVICE_TLS_SESSION_H_
