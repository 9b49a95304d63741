// The other side of a handshake, as bare as a test wants it. Blocks.
#ifndef GEMMD_TESTS_SERVICE_TLS_TLS_CLIENT_H_
#define GEMMD_TESTS_SERVICE_TLS_TLS_CLIENT_H_

#include <openssl/ssl.h>

#include <string>

#include "jit/base/status.h"
#include "service/tls/handles.h"

namespace gemmd::testing {

class TlsClient {
 public:
  struct Options {
    std::string protocols = std::string("\x02h2", 3);  // Empty: says nothing.
    int most_version = TLS1_3_VERSION;
  };

  // `fd` outlives the client. Verifies nothing.
  explicit TlsClient(int fd) : TlsClient(fd, Options()) {}
  TlsClient(int fd, const Options& options)
      : context_(SSL_CTX_new(TLS_client_method())),
        ssl_((
            SSL_CTX_set_min_proto_version(context_.get(), TLS1_VERSION),
            SSL_CTX_set_max_proto_version(context_.get(), options.most_version),
            SSL_CTX_set_security_level(context_.get(), 0),
            SSL_new(context_.get()))) {
    CHECK(ssl_ != nullptr && SSL_set_fd(ssl_.get(), fd) == 1);
    if (!options.protocols.empty()) {
      CHECK(
          SSL_set_alpn_protos(
              ssl_.get(),
              reinterpret_cast<const unsigned char*>(options.protocols.data()),
              static_cast<unsigned>(options.protocols.size())) == 0);
    }
  }

  bool Connect() { return SSL_connect(ssl_.get()) == 1; }
  SSL* ssl() { return ssl_.get(); }
  bool Write(const std::string& bytes) {
    return SSL_write(ssl_.get(), bytes.data(),
                     static_cast<int>(bytes.size())) ==
           static_cast<int>(bytes.size());
  }
  // Up to `size`; empty at the end.
  std::string Read(size_t size) {
    std::string bytes(size, '\0');
    const int read = SSL_read(ssl_.get(), bytes.data(), static_cast<int>(size));
    bytes.resize(read > 0 ? static_cast<size_t>(read) : 0);
    return bytes;
  }
  // Asks for new keys so often as the other side lets it, at most `most`.
  int UpdateKeys(int most) {
    int updates = 0;
    while (updates < most &&
           SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1 &&
           SSL_do_handshake(ssl_.get()) == 1) {
      ++updates;
    }
    return updates;
  }

 private:
  tls::UniqueSslContext context_;
  tls::UniqueSsl ssl_;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_SERVICE_TLS_TLS_CLIENT_H_
