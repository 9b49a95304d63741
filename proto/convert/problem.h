// Problems of the API <-> problems as this project plans and computes them,
// for the daemon and its clients alike: what is unknown or not served is an
// error that names the field. Pure functions.
#ifndef GEMMD_PROTO_CONVERT_PROBLEM_H_
#define GEMMD_PROTO_CONVERT_PROBLEM_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gemmd/v1/types.pb.h"
#include "jit/problem/data_type.h"
#include "jit/problem/problem.h"

namespace gemmd::convert {

// `field` is how the client calls it: "problem.a_type".
absl::StatusOr<jit::DataType> ToDataType(int wire, absl::string_view field);
// UNSPECIFIED is row-major.
absl::StatusOr<jit::Order> ToOrder(int wire, absl::string_view field);
// Whether it is sparse.
absl::StatusOr<bool> ToSparsity(int wire, absl::string_view field);

// What it says, valid or not, with a group of 0 as jit::kWholeLine.
// INVALID_ARGUMENT for a group of that number, which jit::Validate would take
// for all of k.
absl::StatusOr<jit::Quantization> ToQuantization(const v1::Quantization& wire,
                                                 absl::string_view field);
// What it says, valid or not.
absl::StatusOr<jit::Problem> ReadProblem(const v1::Problem& wire);
// Valid: jit::Validate has been called.
absl::StatusOr<jit::Problem> ToProblem(const v1::Problem& wire);

v1::DataType ToWire(jit::DataType type);
v1::Order ToWire(jit::Order order);
v1::Sparsity SparsityOf(bool sparse);
// Of what is quantized.
v1::Quantization ToWire(const jit::Quantization& quantization);
// With every field set, so that ReadProblem gives `problem` again. Which
// operands are broadcast is not said: it shapes no kernel, and a request says
// it with its layouts.
v1::Problem ToWire(const jit::Problem& problem);

}  // namespace gemmd::convert

#endif  // GEMMD_PROTO_CONVERT_PROBLEM_H_
