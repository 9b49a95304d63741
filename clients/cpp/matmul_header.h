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

// Bytes of D, or of the auxiliary result, when it returns tight.
uint64_t ResultBytes(const v1::Problem& problem);

// Whether the product travels in chunks: its operands and results that are no
// tensors have more than `limit` bytes, and no matrices of a batch overlap and
// none is in shared memory, which streams do not serve.
bool Streams(const Product& product, uint64_t limit);

}  // namespace gemmd::client

#endif  // GEMMD_CLIENTS_CPP_MATMUL_HEADER_H_
