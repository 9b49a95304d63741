#include "jit/problem/problem.h"

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"

namespace gemmd::jit {
namespace {

absl::Status ValidateDimension(absl::string_view field, int64_t value) {
  if (value >= 0 && value <= kMaxDimension) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "problem.", field, " is ", value, "; allowed: 0 to ", kMaxDimension));
}

bool IsInput(DataType type) {
  return type == DataType::kBf16 || type == DataType::kF16;
}

bool IsOutput(DataType type) { return IsInput(type) || type == DataType::kF32; }

absl::Status Unserved(absl::string_view field, DataType type,
                      absl::string_view served) {
  return absl::UnimplementedError(absl::StrCat(
      "problem.", field, " is ", Name(type), "; served: ", served));
}

}  // namespace

absl::Status Validate(const Problem& problem) {
  RETURN_IF_ERROR(ValidateDimension("m", problem.m));
  RETURN_IF_ERROR(ValidateDimension("n", problem.n));
  RETURN_IF_ERROR(ValidateDimension("k", problem.k));
  if (!IsInput(problem.a_type)) {
    return Unserved("a_type", problem.a_type, "bf16, f16");
  }
  if (problem.b_type != problem.a_type) {
    return Unserved("b_type", problem.b_type,
                    absl::StrCat(Name(problem.a_type), " (that of a_type)"));
  }
  if (!IsOutput(problem.d_type)) {
    return Unserved("d_type", problem.d_type, "bf16, f16, f32");
  }
  if (problem.reads_c() && problem.c_type != problem.d_type) {
    return Unserved("c_type", problem.c_type,
                    absl::StrCat(Name(problem.d_type), " (that of d_type)"));
  }
  if (problem.accumulator != DataType::kF32 ||
      problem.precision != Precision::kDefault || problem.clamps ||
      problem.bit_operation != BitOperation::kAnd ||
      problem.epilogue != Epilogue() || problem.batch != 1) {
    return absl::UnimplementedError(
        "problem asks for an accumulator, precision, epilogue or batch that is "
        "not served; served: their defaults");
  }
  return absl::OkStatus();
}

std::string DebugString(const Problem& problem) {
  // A row-major D is the column-major transpose: D^T = B^T A^T.
  const bool row = problem.d_order == Order::kRowMajor;
  const Order first = row ? Opposite(problem.b_order) : problem.a_order;
  const Order second = row ? Opposite(problem.a_order) : problem.b_order;
  const auto letter = [](Order order) {
    return order == Order::kColumnMajor ? "N" : "T";
  };
  return absl::StrCat(Name(problem.a_type), " ", letter(first), letter(second),
                      " ", row ? problem.n : problem.m, "x",
                      row ? problem.m : problem.n, "x", problem.k, " -> ",
                      Name(problem.d_type));
}

}  // namespace gemmd::jit
