// ModelInferRequest, read from the wire with the elements of its inputs left
// where the transport put them. Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_KSERVE_INFER_REQUEST_H_
#define GEMMD_SERVICE_RPC_KSERVE_INFER_REQUEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "inference/service.pb.h"
#include "jit/problem/data_type.h"
#include "service/rpc/kserve/shapes.h"
#include "service/rpc/message.h"

namespace gemmd::rpc::kserve {

// All of a request but the elements.
inline constexpr int64_t kMaxHeaderBytes = 64 << 10;

struct Input {
  std::string name;
  jit::DataType type = jit::DataType::kF32;
  Dimensions shape;
  int64_t elements = 0;
  Pieces data;     // Those elements, little-endian, once `numbers` are decoded.
  Pieces numbers;  // Integers of variable length.
  std::string own;  // What `data` may lie in: not to be moved from then on.

  int64_t bytes() const { return elements * jit::BytesOf(type); }
};

// A request as it came: `message` has no elements.
struct InferHeader {
  inference::ModelInferRequest message;
  std::vector<Pieces> contents;  // Of each input; empty: it has none.
  std::vector<Pieces> raw;
};

struct InferRequest {
  inference::ModelInferRequest header;
  std::vector<Input> inputs;
};

// Points into the pieces. INVALID_ARGUMENT when they are malformed.
absl::StatusOr<InferHeader> ReadInferHeader(absl::Span<const Piece> pieces);
// INVALID_ARGUMENT when an input is given twice, is of no type or has another
// number of bytes than its shape.
absl::StatusOr<InferRequest> ToInferRequest(InferHeader header);

// Bytes that Decode needs beside the message.
int64_t DecodedBytes(const InferRequest& request);
// Whether Decode, or to repeat matrices for a batch, takes longer than a tenth
// of a millisecond or so.
bool TakesLong(const InferRequest& request);
// Gives every input its data. INVALID_ARGUMENT when a number is none of its
// type, or there are more or fewer of them than the shape says.
absl::Status Decode(InferRequest& request);

}  // namespace gemmd::rpc::kserve

#endif  // GEMMD_SERVICE_RPC_KSERVE_INFER_REQUEST_H_
