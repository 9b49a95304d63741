// MatmulRequest, read from the wire and validated, with its operand bytes left
// where the transport put them. Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_MATMUL_REQUEST_H_
#define GEMMD_SERVICE_RPC_MATMUL_REQUEST_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "gemmd/v1/matmul.pb.h"
#include "service/engine/product.h"
#include "service/rpc/message.h"
#include "service/rpc/runtime.h"

namespace gemmd::rpc {

// The fields of the message. A repeated `header` is merged, of repeated bytes
// the last counts, as protobuf has it.
struct MatmulFields {
  v1::MatmulHeader header;
  Pieces a;
  Pieces b;
  Pieces c;
  Pieces bias;
  Pieces a_scale;
  Pieces b_scale;
  Pieces d_scale;
};

// Points into the pieces. INVALID_ARGUMENT when they are malformed.
absl::StatusOr<MatmulFields> ReadMatmulFields(absl::Span<const Piece> pieces);

struct MatmulRequest {
  engine::Product product;
  int device = 0;
  int64_t operand_bytes = 0;
  int64_t result_bytes = 0;  // Of D, when it is returned.
};

// Whose request it is: he uses what is his.
struct Asker {
  Runtime& runtime;
  std::string identity;
};

// Looks up tensors and the device. Nothing is allocated before every length
// has been found right.
absl::StatusOr<MatmulRequest> ToMatmulRequest(MatmulFields fields,
                                              const Asker& asker);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_MATMUL_REQUEST_H_
