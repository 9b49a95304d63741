// Bytes over a stream socket with a deadline for all of them together. Each
// function fails with DEADLINE_EXCEEDED at `deadline` and with UNAVAILABLE when
// the other side is gone.
#ifndef GEMMD_JIT_BASE_SOCKET_IO_H_
#define GEMMD_JIT_BASE_SOCKET_IO_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gemmd::jit {

// Waits for any of `events`, as in poll(2).
absl::Status WaitForSocket(int socket, short events, absl::Time deadline);

absl::Status ReceiveExactly(int socket, absl::Time deadline, char* to,
                            size_t size);
absl::Status SendExactly(int socket, absl::Time deadline,
                         absl::string_view bytes);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_BASE_SOCKET_IO_H_
