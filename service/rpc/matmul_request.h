// MatmulRequest, read from the wire and validated, with its operand bytes left
// where the transport put them. Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_MATMUL_REQUEST_H_
#define GEMMD_SERVICE_RPC_MATMUL_REQUEST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gemmd/v1/matmul.pb.h"
#include "service/engine/product.h"
#include "service/rpc/asker.h"
#include "service/rpc/message.h"
#include "service/rpc/runtime.h"
#include "service/rpc/wire_layout.h"

namespace gemmd::rpc {

class SequenceNames;

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

// An operand whose bytes follow the header; not empty.
struct AwaitedOperand {
  v1::MatmulStreamRequest::Operand operand;
  const char* name;
  engine::Input engine::Product::*input;
  jit::MatrixLayout layout;
  WireLayout wire;
};

// What comes with a header, and goes back.
struct MatmulBytes {
  int64_t operand_bytes = 0;
  int64_t result_bytes = 0;             // Of what is returned in one message.
  std::vector<AwaitedOperand> awaited;  // In the order in which they come.
  // Of those that come, what the problem does not read.
  std::vector<v1::MatmulStreamRequest::Operand> unread;
};

struct MatmulRequest : MatmulBytes {
  engine::Product product;
  int device = 0;
};

// Where the bytes of inline operands are, and whether results have to fit in
// one message.
enum class Transport {
  kOneMessage,
  kStream,  // The bytes follow, and `fields` has none.
};

// Looks up tensors and the device. Nothing is allocated before every length
// has been found right.
absl::StatusOr<MatmulRequest> ToMatmulRequest(
    MatmulFields fields, const Asker& asker,
    Transport transport = Transport::kOneMessage);
// Fills a step of a sequence, whose problem is set: the header's own. What it
// reads and writes may have one of `names`; the device is left to the sequence.
// Gives the bytes that it returns.
absl::StatusOr<int64_t> SetStep(const v1::MatmulHeader& header,
                                const Asker& asker, SequenceNames& names,
                                engine::Product& step);
// Of a header.
absl::StatusOr<jit::Problem> ReadProblem(const v1::MatmulHeader& header);

// The device of the tensors that the product writes and of the device memory of
// its regions, all of which are on `device` unless that is -1; `device` where
// there are none. What it only reads it is not bound to.
absl::StatusOr<int> BoundTo(const Runtime& runtime,
                            const engine::Product& product, int device);
// The same of a region alone; null: there is none.
absl::StatusOr<int> BoundTo(const Runtime& runtime,
                            const device::Region* region, int device);
// Where `products`, which are bound to none, are to run together.
absl::StatusOr<int> ChooseDevice(const Runtime& runtime,
                                 absl::Span<const engine::Product> products);

// The operand that a number of the wire stands for, as errors call it.
// INVALID_ARGUMENT with those that there are.
absl::StatusOr<std::string> OperandName(uint64_t operand);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_MATMUL_REQUEST_H_
