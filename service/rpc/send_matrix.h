// Sends the elements of a tensor as the messages of a stream, a part at a time:
// no more of them is in the daemon's memory than the budget of answers allows.
#ifndef GEMMD_SERVICE_RPC_SEND_MATRIX_H_
#define GEMMD_SERVICE_RPC_SEND_MATRIX_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "service/rpc/async.h"
#include "service/rpc/call.h"
#include "service/rpc/runtime.h"

namespace gemmd::rpc {

struct OutgoingMatrix {
  std::shared_ptr<engine::Tensor> tensor;
  int64_t pitch_bytes = 0;    // Between lines on the wire; padding is zero.
  uint32_t field = 0;         // Of the messages, for the bytes.
  int64_t chunk_bytes = 0;    // Most in a message.
  absl::Duration fetch_time;  // That parts were with the engine.
};

// All lines but the padding of the last one. ABORTED when the tensor is written
// meanwhile; CANCELLED when the client is gone.
Async<absl::Status> SendMatrix(Runtime& runtime, Call& call,
                               OutgoingMatrix& matrix);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_SEND_MATRIX_H_
