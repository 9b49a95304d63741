#include "service/rpc/wire_layout.h"

#include <algorithm>
#include <limits>
#include <string>

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

// Of a matrix, with the padding of its last line.
int64_t TightBytes(const WireLayout& layout, const jit::MatrixLayout& matrix) {
  return Saturate(absl::int128(layout.pitch_bytes) * matrix.matrix_lines());
}

// Where lines are no elements alone the wire counts bytes.
jit::DataType CountedType(const jit::MatrixLayout& matrix) {
  return matrix.composite() ? jit::DataType::kU8 : matrix.type;
}

// What the wire counts, elements or bytes.
int64_t CountIn(int64_t bytes, const jit::MatrixLayout& matrix) {
  return Saturate(absl::int128(bytes) * 8 / jit::BitsOf(CountedType(matrix)));
}

// Lines and matrices start at bytes.
int64_t ElementsPerByte(jit::DataType type) {
  return std::max(1, 8 / jit::BitsOf(type));
}

std::string MultipleOf(int64_t unit) {
  return unit == 1 ? "" : absl::StrCat(", a multiple of ", unit);
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
  const jit::DataType counted = CountedType(matrix);
  const int64_t unit = ElementsPerByte(counted);
  const int64_t width =
      matrix.composite() ? matrix.width_bytes() : matrix.width();
  const int64_t tight = (width + unit - 1) / unit * unit;
  const int64_t asked = layout.leading_dimension();
  if (asked != 0 &&
      (asked < tight || asked > jit::kMaxDimension || asked % unit != 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ".leading_dimension is ", asked, "; allowed: 0 or ",
        std::max(tight, unit), " to ", jit::kMaxDimension, MultipleOf(unit)));
  }
  WireLayout wire;
  wire.pitch_bytes = (asked != 0 ? asked : tight) * jit::BitsOf(counted) / 8;
  const absl::int128 one =
      absl::int128(wire.pitch_bytes) * matrix.matrix_lines();
  absl::int128 stride = one;
  if (layout.has_batch_stride()) {
    const int64_t elements = layout.batch_stride();
    if (elements < 0 || elements % unit != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".batch_stride is ", elements,
                       "; allowed: from 0", MultipleOf(unit)));
    }
    stride = absl::int128(elements) * jit::BitsOf(counted) / 8;
  }
  wire.matrix_bytes = Saturate(stride);
  if (matrix.empty()) return wire;
  const absl::int128 most = stride * (matrix.count - 1) + one;
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

bool IsTight(const WireLayout& layout, const jit::MatrixLayout& matrix) {
  return matrix.count == 1 || layout.matrix_bytes == TightBytes(layout, matrix);
}

absl::Status CheckApart(const WireLayout& layout,
                        const jit::MatrixLayout& matrix,
                        absl::string_view field) {
  // Without the padding of the last line.
  const int64_t least =
      TightBytes(layout, matrix) - (layout.pitch_bytes - matrix.width_bytes());
  if (matrix.empty() || matrix.count == 1 || layout.matrix_bytes >= least) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      field, ".batch_stride is ", CountIn(layout.matrix_bytes, matrix),
      "; allowed in a stream, where they come one after the other: from ",
      CountIn(least, matrix), ", of a and b also 0"));
}

absl::Status CheckTight(const WireLayout& layout,
                        const jit::MatrixLayout& matrix,
                        absl::string_view field) {
  if (IsTight(layout, matrix)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, ".batch_stride is ", CountIn(layout.matrix_bytes, matrix),
      "; allowed here: absent or ",
      CountIn(TightBytes(layout, matrix), matrix)));
}

}  // namespace gemmd::rpc
