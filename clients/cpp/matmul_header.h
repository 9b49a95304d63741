// A product as it is sent: the header, and the operands whose bytes go along.
#ifndef GEMMD_CLIENTS_CPP_MATMUL_HEADER_H_
#define GEMMD_CLIENTS_CPP_MATMUL_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "clients/cpp/client.h"

namespace gemmd::client {

struct InlineOperand {
  int field;  // Of MatmulRequest.
  absl::Span<const char> bytes;
};

// Fills the header of a product, which is empty.
void SetHeader(const Product& product, v1::MatmulHeader& header);

struct OutgoingProduct {
  v1::MatmulHeader header;
  std::vector<InlineOperand> operands;  // In ascending order; not empty.
};

// Bytes stay where they lie.
OutgoingProduct ToOutgoing(const Product& product);

// Of one element.
int BitsOf(v1::DataType type);

// What is described alike as it is sent and as a tensor.
struct Input {
  int field;  // Of MatmulRequest.
  Operand Product::*operand;
  v1::DataType type;
  v1::Order order;
  v1::Source* (v1::MatmulHeader::*source)();
  bool is_sparse = false;
  bool is_quantized = false;
};
inline constexpr size_t kMostInputs = 7;
// Those that the request asks for, A, B and C before others.
absl::InlinedVector<Input, kMostInputs> Inputs(const v1::Problem& problem);

// A, B and C, of which tensors are matrices.
inline bool IsMatrix(const Input& input) {
  return input.operand == &Product::a || input.operand == &Product::b ||
         input.operand == &Product::c;
}
// One of those as a tensor, which has one matrix where A or B serves a whole
// batch so.
v1::CreateTensorRequest AsTensor(const v1::Problem& problem, const Input& input,
                                 const Operand& operand);

inline int64_t BatchOf(const v1::Problem& problem) {
  return problem.has_batch() ? problem.batch() : 1;
}

// That of D; UNSPECIFIED types have their defaults.
v1::DataType ResultType(const v1::Problem& problem);

// Whether the bytes go along with the request.
inline bool IsInline(const Operand& operand) {
  return operand.tensor.empty() && operand.region.empty() &&
         operand.name.empty() && !operand.bytes.empty();
}
// Whether the bytes come back with the answer.
inline bool IsReturned(const Destination& to) {
  if (!to.tensor.empty() || !to.region.empty()) return false;
  return to.name.empty() || to.returned || to.bytes.data() != nullptr;
}

// Bytes of D, or of the auxiliary result, when it returns tight.
uint64_t ResultBytes(const v1::Problem& problem);

// Those that come back with the answer: of the destination's own, or tight.
uint64_t BytesTo(const Destination& destination, const v1::Problem& problem);

// Those of operands and results that are neither tensors nor in shared memory.
uint64_t TravellingBytes(const Product& product);

// Whether the product travels in chunks: more than `limit` bytes travel, and no
// matrices of a batch overlap, which streams do not serve.
bool Streams(const Product& product, uint64_t limit);

}  // namespace gemmd::client

#endif  // GEMMD_CLIENTS_CPP_MATMUL_HEADER_H_
