// How a matrix, or a batch of them, lies on the wire: lines of the client's
// leading dimension, matrices of the client's stride. Plain data and pure
// functions.
#ifndef GEMMD_SERVICE_RPC_WIRE_LAYOUT_H_
#define GEMMD_SERVICE_RPC_WIRE_LAYOUT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gemmd/v1/types.pb.h"
#include "jit/problem/layout.h"

namespace gemmd::rpc {

struct WireLayout {
  int64_t pitch_bytes = 0;
  int64_t matrix_bytes = 0;  // From one matrix of a batch to the next.
  // Without and with the padding of the last line; both 0 when the matrix is
  // empty. INT64_MAX when a client asks for more than can be counted.
  int64_t least_bytes = 0;
  int64_t most_bytes = 0;
};

// `field` is how the client calls the layout: "a.inline". INVALID_ARGUMENT
// when the order is not the matrix's, or the leading dimension or the stride is
// too small or too large.
absl::StatusOr<WireLayout> ToWireLayout(const v1::Layout& layout,
                                        const jit::MatrixLayout& matrix,
                                        absl::string_view field);

// The same of what the daemon sends as one run of lines: matrices lie one
// behind the other, and padding is bounded (limits.h).
absl::StatusOr<WireLayout> ToSentLayout(const v1::Layout& layout,
                                        const jit::MatrixLayout& matrix,
                                        absl::string_view field);

// INVALID_ARGUMENT naming `field` unless `bytes` is one of the two lengths.
absl::Status CheckLength(const WireLayout& layout, int64_t bytes,
                         absl::string_view field);

// RESOURCE_EXHAUSTED naming `field` where the matrices overlap, and apart, as a
// device has them, are more than `most_bytes` and than what they lie in.
absl::Status CheckOverlap(const WireLayout& layout,
                          const jit::MatrixLayout& matrix, int64_t most_bytes,
                          absl::string_view field);

// Whether matrices lie one behind the other: as one run of lines.
bool IsTight(const WireLayout& layout, const jit::MatrixLayout& matrix);

// INVALID_ARGUMENT naming `field` unless each matrix begins behind the end of
// the one before, as they must where they are read once, in order.
absl::Status CheckApart(const WireLayout& layout,
                        const jit::MatrixLayout& matrix,
                        absl::string_view field);

// INVALID_ARGUMENT naming `field` unless matrices lie one behind the other.
absl::Status CheckTight(const WireLayout& layout,
                        const jit::MatrixLayout& matrix,
                        absl::string_view field);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_WIRE_LAYOUT_H_
