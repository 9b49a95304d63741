// A product as it is sent: the header, and the operands whose bytes go along.
#ifndef GEMMD_CLIENTS_CPP_MATMUL_HEADER_H_
#define GEMMD_CLIENTS_CPP_MATMUL_HEADER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "clients/cpp/client.h"

namespace gemmd::client {

struct InlineOperand {
  int field;  // Of MatmulRequest.
  absl::Span<const char> bytes;
};

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
// Those that the request asks for, A, B and C before others.
std::vector<Input> Inputs(const v1::Problem& problem);

// That of D; UNSPECIFIED types have their defaults.
v1::DataType ResultType(const v1::Problem& problem);

// Whether the bytes go along with the request.
inline bool IsInline(const Operand& operand) {
  return operand.tensor.empty() && operand.region.empty() &&
         !operand.bytes.empty();
}

// Bytes of D, or of the auxiliary result, when it returns tight.
uint64_t ResultBytes(const v1::Problem& problem);

// Whether the product travels in chunks: its operands and results that are
// neither tensors nor in shared memory have more than `limit` bytes, and no
// matrices of a batch overlap, which streams do not serve.
bool Streams(const Product& product, uint64_t limit);

}  // namespace gemmd::client

#endif  // GEMMD_CLIENTS_CPP_MATMUL_HEADER_H_
