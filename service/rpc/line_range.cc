#include "service/rpc/line_range.h"

#include "absl/strings/str_cat.h"

namespace gemmd::rpc {

absl::StatusOr<device::LineRange> ToLineRange(const v1::LineRange& lines,
                                              const jit::MatrixLayout& matrix,
                                              absl::string_view field) {
  const int64_t all = matrix.lines();
  if (lines.first() < 0 || lines.first() >= all) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".first is ", lines.first(), "; allowed: 0 to ",
                     all - 1, ", the lines of the tensor"));
  }
  if (lines.count() < 1 || lines.count() > all - lines.first()) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".count is ", lines.count(), "; allowed: 1 to ",
                     all - lines.first(), ", from line ", lines.first(),
                     " to the last of the tensor"));
  }
  return device::LineRange{.first = lines.first(), .count = lines.count()};
}

WireLayout LinesOf(const WireLayout& wire, const jit::MatrixLayout& lines) {
  const int64_t bytes = wire.pitch_bytes * lines.lines();
  return {.pitch_bytes = wire.pitch_bytes,
          .matrix_bytes = bytes,
          .least_bytes = bytes - (wire.pitch_bytes - lines.width_bytes()),
          .most_bytes = bytes};
}

}  // namespace gemmd::rpc
