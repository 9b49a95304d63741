// Who may listen on the path of a Unix socket: one process at a time, so that
// none takes the path from another. Thread-compatible.
//
// A lock on the file PATH.lock, which the kernel releases when its holder
// ends, however it ends. The socket's own file tells nothing: it outlives a
// killed daemon, and removing one that seems dead races with another start.
#ifndef GEMMD_SERVICE_RPC_SOCKET_LOCK_H_
#define GEMMD_SERVICE_RPC_SOCKET_LOCK_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "jit/base/file.h"

namespace gemmd::rpc {

// Whether `path` itself, and no link, still leads to the open `file`.
bool Names(const std::string& path, const jit::UniqueFd& file);

class SocketLock {
 public:
  // UNAVAILABLE when another process has it, or the file cannot be made.
  static absl::StatusOr<SocketLock> Take(const std::string& socket_path);
  SocketLock(SocketLock&&) = default;
  SocketLock& operator=(SocketLock&&) = delete;
  // Removes the file, unless the path is another's by now: who removed the file
  // let the next one in. The socket's own is gone by then.
  ~SocketLock();

 private:
  SocketLock(std::string path, jit::UniqueFd file)
      : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  jit::UniqueFd file_;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_SOCKET_LOCK_H_
