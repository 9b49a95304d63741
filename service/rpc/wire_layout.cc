#include "service/rpc/wire_layout.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "jit/problem/problem.h"
#include "service/rpc/convert.h"
#include "service/rpc/limits.h"

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

// The widest leading dimension with which a matrix is sent.
int64_t MostSent(const jit::MatrixLayout& matrix) {
  const int64_t gaps = matrix.lines() - 1;
  if (matrix.empty() || gaps == 0) return jit::kMaxDimension;
  const absl::int128 width = matrix.width_bytes();
  const absl::int128 most = std::max<absl::int128>(
      kMostPaddedBytes, width * matrix.lines() * kMostPaddedTimes);
  const int64_t unit = ElementsPerByte(CountedType(matrix));
  return CountIn(Saturate((most - width) / gaps), matrix) / unit * unit;
}

absl::StatusOr<WireLayout> LayOut(const v1::Layout& layout,
                                  const jit::MatrixLayout& matrix,
                                  int64_t most_leading,
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
      (asked < tight || asked > most_leading || asked % unit != 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ".leading_dimension is ", asked, "; allowed: 0 or ",
        std::max(tight, unit), " to ", most_leading, MultipleOf(unit)));
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

}  // namespace

absl::StatusOr<WireLayout> ToWireLayout(const v1::Layout& layout,
                                        const jit::MatrixLayout& matrix,
                                        absl::string_view field) {
  return LayOut(layout, matrix, jit::kMaxDimension, field);
}

absl::StatusOr<WireLayout> ToSentLayout(const v1::Layout& layout,
                                        const jit::MatrixLayout& matrix,
                                        absl::string_view field) {
  const int64_t most = std::min(MostSent(matrix), jit::kMaxDimension);
  ASSIGN_OR_RETURN(const WireLayout wire, LayOut(layout, matrix, most, field));
  RETURN_IF_ERROR(CheckTight(wire, matrix, field));
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

absl::Status CheckOverlap(const WireLayout& layout,
                          const jit::MatrixLayout& matrix, int64_t most_bytes,
                          absl::string_view field) {
  const absl::int128 apart =
      absl::int128(matrix.width_bytes()) * matrix.matrix_lines() * matrix.count;
  const int64_t most = std::max(most_bytes, layout.least_bytes);
  if (matrix.empty() || apart <= most) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      field, ".batch_stride is ", CountIn(layout.matrix_bytes, matrix),
      ", so that ", matrix.count, " matrices overlap, which have ",
      Saturate(apart), " bytes apart; the limit is ", most));
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
