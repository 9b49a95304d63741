// Sockets that clients connect to. Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_LISTENING_SOCKET_H_
#define GEMMD_SERVICE_RPC_LISTENING_SOCKET_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "jit/base/file.h"
#include "service/rpc/socket_lock.h"

namespace gemmd::rpc {

// The sockets of one address: a name may stand for several of the machine's.
class ListeningSocket {
 public:
  // INVALID_ARGUMENT for what is no address; UNAVAILABLE, with the reason,
  // when one of those that the machine has cannot be bound, or it has none. A
  // Unix socket that nobody listens on any more is replaced; whoever its folder
  // lets in may connect.
  // Where Linux can, others refuse who passes descriptors.
  static absl::StatusOr<ListeningSocket> Bind(const std::string& address,
                                              bool takes_descriptors = false);
  ListeningSocket(ListeningSocket&&) = default;
  ListeningSocket& operator=(ListeningSocket&&) = delete;
  // Removes the file of a Unix socket, unless the path is another's by now.
  ~ListeningSocket();

  // Not blocking.
  const std::vector<jit::UniqueFd>& fds() const { return fds_; }
  // As clients may dial it: with the port that was bound.
  const std::string& address() const { return address_; }

 private:
  explicit ListeningSocket(std::string address)
      : address_(std::move(address)) {}

  absl::Status BindUnix(bool takes_descriptors);
  absl::Status BindTcp();

  std::string address_;
  std::vector<jit::UniqueFd> fds_;
  std::string path_;                // Of a Unix socket that is bound,
  jit::UniqueFd file_;              // and what was bound there.
  std::optional<SocketLock> lock_;  // Of its path.
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_LISTENING_SOCKET_H_
