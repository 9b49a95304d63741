// What Client multiplies: products, where their operands come from, and where
// their results go.
#ifndef GEMMD_CLIENTS_CPP_PRODUCT_H_
#define GEMMD_CLIENTS_CPP_PRODUCT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "clients/cpp/shared_memory.h"
#include "gemmd/v1/types.pb.h"

namespace gemmd::client {

// What moves many bytes goes by several connections at a time, by lines of its
// matrices: one connection moves some 3 GB/s. The client makes them when it
// first has use for them, and keeps them. What a daemon refuses that has no
// room for so many calls goes by one.
struct Striping {
  // 1 to 8; 1: none but its own. 0: as many as pay on this machine, half of its
  // cores, and 1 where it has less than 4.
  int connections = 0;
  // What has fewer bytes goes by one.
  uint64_t least_bytes = 32 << 20;
};

// Where A, B or C comes from. The order of its lines is the problem's; of a
// sparse or quantized operand, bytes are counted where this says elements
// (types.proto, Sparsity, Quantization).
struct Operand {
  // Bytes here: lines `leading_dimension` elements apart (0: tight), the last
  // one with or without its padding; of a batch, one matrix behind the other,
  // unless batch_stride is set. They are read in place, not copied, and must
  // stay unchanged until the call returns.
  static Operand Bytes(absl::Span<const char> bytes,
                       int64_t leading_dimension = 0) {
    return {bytes, leading_dimension, {}, {}};
  }
  // A tensor on the device, by its handle; of one matrix it serves a whole
  // batch.
  static Operand Tensor(std::string handle) {
    return {{}, 0, std::move(handle), {}};
  }
  // In a Sequence: the result of an earlier step that has this name, with the
  // sizes, type and order that it has there.
  static Operand Named(std::string name) { return {.name = std::move(name)}; }
  // Bytes from `offset` of `memory` on, as above, which the daemon reads where
  // they are. Not of sparse operands. They do not go in chunks, whatever else
  // of the product does.
  static Operand Shared(const SharedMemory& memory, int64_t offset,
                        int64_t leading_dimension = 0) {
    return {{}, leading_dimension, {}, {}, memory.handle(), offset};
  }

  absl::Span<const char> bytes;
  int64_t leading_dimension = 0;
  std::string tensor;
  // Elements between the first ones of two matrices of a batch: 0 lets one
  // matrix serve all of it; none means tight.
  std::optional<int64_t> batch_stride;
  std::string region;  // Handle of shared memory,
  int64_t offset = 0;  // and where in it.
  std::string name;
  // The tensor's, or the named result's, transpose: 5 x 3 in row-major order is
  // read as 3 x 5 in column-major order.
  bool transposed = false;
};

// Where D, or the auxiliary result, goes. The default is its field of Result,
// tight.
struct Destination {
  // `bytes` receives it: lines `leading_dimension` elements apart (0: tight),
  // padding between them zero, which is sent and thus bounded (v1.Layout). Its
  // size is ((lines - 1) * leading_dimension + width) elements exactly.
  static Destination Bytes(absl::Span<char> bytes,
                           int64_t leading_dimension = 0) {
    return {bytes, leading_dimension, {}};
  }
  static Destination Tensor(std::string handle) {
    return {{}, 0, std::move(handle)};
  }
  // From `offset` of `memory` on; padding between lines is left alone. After an
  // error its bytes may be any, and after DEADLINE_EXCEEDED or CANCELLED they
  // may still be written for a while.
  static Destination Shared(const SharedMemory& memory, int64_t offset,
                            int64_t leading_dimension = 0) {
    return {{}, leading_dimension, {}, memory.handle(), offset};
  }
  // In a Sequence: on the device, until the call ends, for later steps alone.
  static Destination Named(std::string name) {
    return {.name = std::move(name)};
  }

  absl::Span<char> bytes;
  int64_t leading_dimension = 0;
  std::string tensor;
  std::string region;  // As of an operand.
  int64_t offset = 0;
  // In a Sequence: later steps read the result by it, wherever else it goes.
  // Not with a tensor, which they read by its handle.
  std::string name;
  // What has a name comes back in its field of Result, too.
  bool returned = false;
};

// One product, or problem.batch of them: D = alpha * A B + beta * C, and what
// problem.activation and problem.epilogue add.
struct Product {
  v1::Problem problem;
  Operand a;
  Operand b;
  Operand c;  // Left out of the request when problem.beta is 0.
  Destination d;
  // Values of problem.epilogue, f32, tight (or tensors of f32); left out of
  // the request where it asks for none.
  Operand bias;
  Operand a_scale;
  Operand b_scale;
  Operand d_scale;
  // Of what the activation is applied to, when problem.epilogue.auxiliary: of
  // D's type, shape and order.
  Destination auxiliary;
  std::string device;  // "": the daemon's choice.
  // Of this request alone, 16 to 64 printable ASCII characters without spaces,
  // drawn at random: who does not know whether it was carried out, because the
  // connection was lost, asks again with the same one, and it is carried out
  // once. For results that stay where they are: ALREADY_EXISTS where more than
  // 64 KiB would be returned again. With one a product goes by one connection.
  // "": none.
  std::string idempotency_key;
  absl::Duration timeout;                // Zero: Options::timeout.
  std::optional<uint64_t> stream_bytes;  // None: Options::stream_bytes.
  std::optional<Striping> striping;      // None: Options::striping.
};

// What a product returns.
struct Returned {
  std::string d;              // Bytes of D when Product::d is the default.
  std::string auxiliary;      // Likewise.
  std::optional<float> amax;  // When problem.epilogue.amax.
};

struct Result : Returned {
  v1::Execution execution;  // Device, kernel, time of each phase.
};

// Products in order, whose results the later ones read, for one call:
//
//   hidden.d = Destination::Named("h");  // x * w1
//   out.a = Operand::Named("h");         // h * w2
//   sequence.steps = {hidden, out};
//   ASSIGN_OR_RETURN(SequenceResult result, client->Run(sequence));
//   result.steps[1].d
//
// At most 256 steps, in one message whatever its size, and of no more work than
// matmul.proto says (Sequence). A, B or C that several steps read from the same
// bytes, or the same place in shared memory, is sent or brought once. All of
// these are read before the first step, and results go to buffers and shared
// memory when the last one is done; tensors are read and written step by step.
// One that is run again and again need not be encoded each time:
// clients/cpp/encoded_sequence.h.
struct Sequence {
  // Of each, `device` stays empty, and what is said of a call (timeout, key,
  // streams, striping) does not count.
  std::vector<Product> steps;
  std::string device;           // "": the daemon's choice.
  std::string idempotency_key;  // As Product's.
  absl::Duration timeout;       // Zero: Options::timeout.
};

struct SequenceResult {
  // How a step ran, without phases:
  const v1::Execution& execution(size_t step) const {
    return executions[step_executions[step]];
  }

  std::vector<Returned> steps;
  v1::Phases phases;  // these are of the whole.
  // Most steps run alike: each way once, and of each step which one.
  std::vector<v1::Execution> executions;
  std::vector<uint32_t> step_executions;
};

}  // namespace gemmd::client

#endif  // GEMMD_CLIENTS_CPP_PRODUCT_H_
