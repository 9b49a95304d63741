#include "clients/gemmctl/quantized.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "clients/gemmctl/convert.h"
#include "clients/gemmctl/outputs.h"
#include "clients/gemmctl/quantized_shape.h"
#include "jit/base/status.h"

namespace gemmd::gemmctl {

absl::StatusOr<Matrix> Join(Parts parts, v1::Order order) {
  RETURN_IF_ERROR(EndsOf(parts.elements.type).status());
  RETURN_IF_ERROR(CheckZeros(parts.elements.type, parts.zeros.has_value()));
  Matrix joined = Reorder(std::move(parts.elements), order);
  const int64_t length = LengthOf(joined, order);
  const int64_t groups = LengthOf(parts.scales, order);
  ASSIGN_OR_RETURN(const int32_t group, GroupOf(length, groups));
  const std::string due =
      WithLength(joined, order, groups, v1::DATA_TYPE_F32).shape();
  if (parts.scales.shape() != due) {
    return absl::InvalidArgumentError(
        absl::StrCat("scales are ", parts.scales.shape(), "; allowed: ", due));
  }
  if (parts.zeros && parts.zeros->shape() != due) {
    return absl::InvalidArgumentError(absl::StrCat(
        "zero points are ", parts.zeros->shape(), "; allowed: ", due));
  }
  const Matrix scales = Reorder(std::move(parts.scales), order);
  const Matrix zeros =
      parts.zeros ? Reorder(*std::move(parts.zeros), order) : Matrix();
  const std::string packed = Pack(joined);
  const int64_t lines = packed.empty() ? 0 : LinesOf(joined, order);
  const int64_t width = lines == 0 ? 0 : std::ssize(packed) / lines;
  joined.bytes.clear();
  for (int64_t line = 0; line < lines; ++line) {
    joined.bytes.append(packed, line * width, width);
    joined.bytes.append(scales.bytes, line * 4 * groups, 4 * groups);
    if (parts.zeros) joined.bytes.append(zeros.bytes, line * groups, groups);
  }
  joined.quantization.emplace();
  joined.quantization->set_group(group);
  joined.quantization->set_zero_points(parts.zeros.has_value());
  return joined;
}

Parts Split(Matrix quantized) {
  const v1::Order order = quantized.order;
  const v1::Quantization how = *quantized.quantization;
  const int64_t length = LengthOf(quantized, order);
  const int64_t groups = CountGroups(length, how.group());
  const std::string bytes = std::move(quantized.bytes);
  Parts parts = {WithLength(quantized, order, length, quantized.type),
                 WithLength(quantized, order, groups, v1::DATA_TYPE_F32),
                 {}};
  if (how.zero_points()) {
    parts.zeros = WithLength(quantized, order, groups, v1::DATA_TYPE_S8);
  }
  const int64_t lines = LinesOf(quantized, order);
  const int64_t all = lines == 0 ? 0 : std::ssize(bytes) / lines;
  const int64_t width = all - groups * (how.zero_points() ? 5 : 4);
  std::string packed;
  for (int64_t line = 0; line < lines; ++line) {
    const char* const from = bytes.data() + line * all;
    packed.append(from, width);
    parts.scales.bytes.append(from + width, 4 * groups);
    if (parts.zeros) {
      parts.zeros->bytes.append(from + width + 4 * groups, groups);
    }
  }
  parts.elements = Unpack(std::move(parts.elements), std::move(packed));
  return parts;
}

absl::Status CheckOutputs(const PartFiles& files) {
  const std::string names[] = {files.elements, files.scales, files.zeros};
  return CheckOutputs(absl::MakeConstSpan(names));
}

absl::StatusOr<Parts> ReadParts(const PartFiles& files, v1::DataType type) {
  Parts parts;
  ASSIGN_OR_RETURN(parts.elements, ReadNpy(files.elements, type));
  ASSIGN_OR_RETURN(Matrix scales, ReadNpy(files.scales));
  absl::StatusOr<Matrix> widened = Widen(std::move(scales));
  if (!widened.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(files.scales, ": ", widened.status().message()));
  }
  parts.scales = *std::move(widened);
  if (files.zeros.empty()) return parts;
  ASSIGN_OR_RETURN(parts.zeros, ReadNpy(files.zeros));
  if (parts.zeros->type != v1::DATA_TYPE_S8) {
    return absl::InvalidArgumentError(absl::StrCat(
        files.zeros, ": elements are ", Name(parts.zeros->type),
        "; allowed in zero points: s8, as x.astype(np.int8) makes"));
  }
  return parts;
}

absl::Status WriteParts(const PartFiles& files, const Parts& parts) {
  if (files.zeros.empty() != !parts.zeros) {
    return absl::InvalidArgumentError(
        parts.zeros ? "it has zero points; --zero-points FILE says where to"
                    : "it has no zero points; allowed: no --zero-points");
  }
  Outputs outputs;
  RETURN_IF_ERROR(outputs.Write(files.elements, parts.elements));
  RETURN_IF_ERROR(outputs.Write(files.scales, parts.scales));
  if (parts.zeros) RETURN_IF_ERROR(outputs.Write(files.zeros, *parts.zeros));
  return outputs.Keep();
}

}  // namespace gemmd::gemmctl
