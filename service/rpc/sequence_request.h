// SequenceRequest, read from the wire and validated: every step is the header
// of a MatmulRequest. Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_SEQUENCE_REQUEST_H_
#define GEMMD_SERVICE_RPC_SEQUENCE_REQUEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/engine/sequence.h"
#include "service/rpc/matmul_request.h"
#include "service/rpc/sequence_names.h"

namespace gemmd::rpc {

inline constexpr int kMaxSteps = 256;
inline constexpr int kMaxOperands = 256;
// Of steps and operands without data, which are parsed on a loop.
inline constexpr int64_t kMaxSequenceHeaderBytes = 1 << 20;

struct SequenceRequest {
  engine::Sequence sequence;  // Complete once `names` has bound it.
  SequenceNames names;
  std::vector<jit::MatrixLayout> rooms;  // That it needs on the device.
  int device = 0;
  int64_t operand_bytes = 0;
  int64_t result_bytes = 0;  // With what is told of each step.
  bool shares_executions = false;
};

// Points into the pieces. Looks up the device and tensors, of `identity`, each
// of these once; allocates nothing.
absl::StatusOr<SequenceRequest> ToSequenceRequest(
    absl::Span<const Piece> pieces, Runtime& runtime,
    const std::string& identity);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_SEQUENCE_REQUEST_H_
