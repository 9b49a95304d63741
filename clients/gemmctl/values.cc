#include "clients/gemmctl/values.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "clients/cli/quantity.h"
#include "clients/gemmctl/convert.h"
#include "jit/base/status.h"

namespace gemmd::gemmctl {
namespace {

using jit::Extent;

struct Shape {
  int64_t rows = 0;
  int64_t columns = 0;

  friend bool operator==(const Shape&, const Shape&) = default;
};

Shape ShapeOf(const Matrix& matrix) { return {matrix.rows, matrix.columns}; }

std::string Text(const Shape& shape) {
  return absl::StrCat(shape.rows, " x ", shape.columns);
}

int64_t Blocks(int64_t elements) {
  return (elements + jit::kScaleBlock - 1) / jit::kScaleBlock;
}

bool IsOne(const Matrix& values) { return ShapeOf(values) == Shape{1, 1}; }

// One value where nothing is named.
absl::StatusOr<Matrix> Read(const std::string& name) {
  Matrix values = {v1::DATA_TYPE_F32, v1::ORDER_ROW_MAJOR, 1, 1, {}, {}};
  if (name.empty()) return values;
  const absl::StatusOr<float> number = cli::ParseF32(name);
  if (absl::IsOutOfRange(number.status())) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is beyond what f32 holds"));
  }
  if (number.ok()) {
    values.bytes.assign(reinterpret_cast<const char*>(&*number),
                        sizeof *number);
    return values;
  }
  ASSIGN_OR_RETURN(values, ReadNpyValues(name));
  return Reorder(std::move(values), v1::ORDER_ROW_MAJOR);
}

absl::Status Wrong(absl::string_view option, const std::string& name,
                   const Matrix& values, absl::string_view allowed) {
  return absl::InvalidArgumentError(absl::StrCat(
      option, ": ", name, " is ", values.shape(), "; allowed: ", allowed));
}

absl::StatusOr<Extent> BiasExtent(const std::string& name, const Matrix& values,
                                  const jit::Problem& problem) {
  const Shape columns = {1, problem.n};
  const Shape rows = {problem.m, 1};
  if (values.batch.empty()) {
    if (ShapeOf(values) == columns) return Extent::kColumn;
    if (ShapeOf(values) == rows) return Extent::kRow;
  }
  return Wrong("--bias", name, values,
               absl::StrCat(problem.n, " or ", Text(columns),
                            " values of columns, ", Text(rows), " of rows"));
}

// A scale of an operand: what one value may belong to besides the whole.
struct Scale {
  absl::string_view option;
  Extent of_lines;
  int64_t lines;
  Shape blocks;
};

bool IsOfLines(const Scale& scale, const Matrix& values) {
  return ShapeOf(values) == Shape{1, scale.lines};
}

// What may be read in two ways is by block where the other has to be.
absl::StatusOr<Extent> ScaleExtent(const Scale& scale, const std::string& name,
                                   const Matrix& values, bool by_block) {
  if (values.batch.empty()) {
    if (by_block && ShapeOf(values) == scale.blocks) return Extent::kBlock;
    if (IsOne(values)) return Extent::kTensor;
    if (IsOfLines(scale, values)) return scale.of_lines;
  }
  return Wrong(
      scale.option, name, values,
      absl::StrCat("one value, ", scale.lines, " of ", Name(scale.of_lines),
                   "s, or ", Text(scale.blocks), " by blocks of 128"));
}

// Whether `values` can only be by blocks.
bool IsBlocks(const Scale& scale, const std::string& name,
              const Matrix& values) {
  return !name.empty() && ShapeOf(values) == scale.blocks && !IsOne(values) &&
         !IsOfLines(scale, values);
}

}  // namespace

absl::StatusOr<Values> ReadValues(const ValueNames& names,
                                  jit::Problem& problem) {
  Values values;
  ASSIGN_OR_RETURN(values.bias, Read(names.bias));
  ASSIGN_OR_RETURN(values.a_scale, Read(names.a_scale));
  ASSIGN_OR_RETURN(values.b_scale, Read(names.b_scale));
  ASSIGN_OR_RETURN(values.d_scale, Read(names.d_scale));
  jit::Epilogue& epilogue = problem.epilogue;
  if (!names.bias.empty()) {
    ASSIGN_OR_RETURN(epilogue.bias,
                     BiasExtent(names.bias, values.bias, problem));
  }
  const Scale a = {
      "--a-scale", Extent::kRow, problem.m, {problem.m, Blocks(problem.k)}};
  const Scale b = {"--b-scale",
                   Extent::kColumn,
                   problem.n,
                   {Blocks(problem.k), Blocks(problem.n)}};
  const bool by_block = IsBlocks(a, names.a_scale, values.a_scale) ||
                        IsBlocks(b, names.b_scale, values.b_scale);
  if (!names.a_scale.empty()) {
    ASSIGN_OR_RETURN(epilogue.a_scale,
                     ScaleExtent(a, names.a_scale, values.a_scale, by_block));
  }
  if (!names.b_scale.empty()) {
    ASSIGN_OR_RETURN(epilogue.b_scale,
                     ScaleExtent(b, names.b_scale, values.b_scale, by_block));
  }
  epilogue.d_scale = !names.d_scale.empty();
  if (epilogue.d_scale && !IsOne(values.d_scale)) {
    return Wrong("--d-scale", names.d_scale, values.d_scale, "one value");
  }
  return values;
}

}  // namespace gemmd::gemmctl
