// What a compile worker and its parent say to each other over a socket: a
// length (u64), then that many bytes, which are a record (jit/base/record.h).
#ifndef GEMMD_JIT_COMPILE_WORKER_PROTOCOL_H_
#define GEMMD_JIT_COMPILE_WORKER_PROTOCOL_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "jit/compile/compiler.h"

namespace gemmd::jit {

// The worker's end of the socket.
inline constexpr int kWorkerFd = 3;
// Files that it was given follow: libnvrtc and its builtins.
inline constexpr int kLibraryFd = kWorkerFd + 1;
inline constexpr int kBuiltinsFd = kWorkerFd + 2;

struct CompileRequest {
  std::string source;
  std::vector<std::string> options;
};

std::string EncodeRequest(const CompileRequest& request);
absl::StatusOr<CompileRequest> DecodeRequest(absl::string_view bytes);

// A reply is the outcome of the compile, good or bad.
std::string EncodeReply(const absl::StatusOr<CompileOutput>& output);
// DATA_LOSS when `bytes` is no reply; `output` is assigned otherwise.
absl::Status DecodeReply(absl::string_view bytes,
                         absl::StatusOr<CompileOutput>& output);

// Each fails with DEADLINE_EXCEEDED at `deadline`, with UNAVAILABLE when the
// other side is gone.
absl::Status SendMessage(int socket, absl::string_view bytes,
                         absl::Time deadline);
absl::StatusOr<std::string> ReceiveMessage(int socket, absl::Time deadline);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_COMPILE_WORKER_PROTOCOL_H_
