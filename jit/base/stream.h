// A connected stream socket, with or without TLS: bytes with a deadline, as in
// jit/base/socket_io.h. Thread-compatible.
#ifndef GEMMD_JIT_BASE_STREAM_H_
#define GEMMD_JIT_BASE_STREAM_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "jit/base/file.h"

namespace gemmd::jit {

class Stream {
 public:
  virtual ~Stream() = default;

  virtual absl::Status Receive(char* to, size_t size, absl::Time deadline) = 0;
  virtual absl::Status Send(absl::string_view bytes, absl::Time deadline) = 0;
};

// `socket` is non-blocking and connected.
std::unique_ptr<Stream> PlainStream(UniqueFd socket);

// Why not, where `ca_file`, empty for the authorities that the system trusts,
// holds no certificates or cannot be read. Those of the system are read once,
// by this or by the first TlsStream.
absl::Status CheckAuthorities(const std::string& ca_file);

// Shakes hands as a client. UNAUTHENTICATED unless the server's certificate is
// of `host` (a name or an IP address) and signed by an authority in `ca_file`,
// which is empty for those that the system trusts; otherwise as in
// jit/base/socket_io.h.
absl::StatusOr<std::unique_ptr<Stream>> TlsStream(UniqueFd socket,
                                                  const std::string& host,
                                                  const std::string& ca_file,
                                                  absl::Time deadline);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_BASE_STREAM_H_
