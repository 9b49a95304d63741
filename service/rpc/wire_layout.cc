#include "service/rpc/wire_layout.h"

#include <algorithm>
#include <limits>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "jit/problem/problem.h"
#include "service/rpc/convert.h"

namespace gemmd::rpc {
namespace {

int64_t Saturate(absl::int128 value) {
  return static_cast<int64_t>(
      std::min<absl::int128>(value, std::numeric_limits<int64_t>::max()));
}

}  // namespace

absl::StatusOr<WireLayout> ToWireLayout(const v1::Layout& layout,
                                        const jit::MatrixLayout& matrix,
                                        absl::string_view field) {
  // An unspecified order is the matrix's own.
  if (layout.order() != v1::ORDER_UNSPECIFIED) {
    ASSIGN_OR_RETURN(const jit::Order order,
                     ToOrder(layout.order(), absl::StrCat(field, ".order")));
    if (order != matrix.order) {
      return absl::InvalidArgumentError(absl::StrCat(
          field, ".order is ", jit::Name(order),
          "; allowed: ", jit::Name(matrix.order), ", the order of the matrix"));
    }
  }
  const int64_t asked = layout.leading_dimension();
  if (asked != 0 && (asked < matrix.width() || asked > jit::kMaxDimension)) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ".leading_dimension is ", asked, "; allowed: 0 or ",
        std::max<int64_t>(matrix.width(), 1), " to ", jit::kMaxDimension));
  }
  const int64_t leading_dimension = asked != 0 ? asked : matrix.width();
  WireLayout wire;
  wire.pitch_bytes = leading_dimension * jit::BytesOf(matrix.type);
  if (matrix.empty()) return wire;
  const absl::int128 most = absl::int128(wire.pitch_bytes) * matrix.lines();
  wire.most_bytes = Saturate(most);
  wire.least_bytes = Saturate(most - (wire.pitch_bytes - matrix.width_bytes()));
  return wire;
}

absl::Status CheckLength(const WireLayout& layout, int64_t bytes,
                         absl::string_view field) {
  if (bytes == layout.least_bytes || bytes == layout.most_bytes) {
    return absl::OkStatus();
  }
  std::string allowed = absl::StrCat(layout.least_bytes);
  if (layout.most_bytes != layout.least_bytes) {
    absl::StrAppend(&allowed, " or ", layout.most_bytes);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      field, " has ", bytes, " bytes; allowed for its shape: ", allowed));
}

}  // namespace gemmd::rpc
