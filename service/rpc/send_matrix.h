// Sends the elements of a tensor as the messages of a stream, a part at a time:
// no more of them is in the daemon's memory than the budget of answers allows.
#ifndef GEMMD_SERVICE_RPC_SEND_MATRIX_H_
#define GEMMD_SERVICE_RPC_SEND_MATRIX_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "service/rpc/async.h"
#include "service/rpc/call.h"
#include "service/rpc/runtime.h"

namespace gemmd::rpc {

struct OutgoingMatrix {
  std::shared_ptr<engine::Tensor> tensor;
  device::LineRange lines;     // Whole ones.
  int64_t pitch_bytes = 0;     // Between lines on the wire; padding is zero.
  uint32_t field = 0;          // Of the messages, for the bytes.
  uint32_t version_field = 0;  // Of the first message; 0: none.
  int64_t chunk_bytes = 0;     // Most in a message.
  std::optional<int64_t> version;  // That is asked for.
  absl::Duration fetch_time;       // That parts were with the engine.
};

// The lines but the padding of the last one. ABORTED when the tensor is written
// meanwhile, or has not the version that is asked for; CANCELLED when the
// client is gone.
Async<absl::Status> SendMatrix(Runtime& runtime, Call& call,
                               OutgoingMatrix& matrix);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_SEND_MATRIX_H_
