#include "clients/warmup/wire.h"

#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "jit/base/status.h"
#include "jit/problem/problem_line.h"

namespace gemmd::warmup {
namespace {

constexpr jit::DataType kDataTypes[] = {
    jit::DataType::kF32,  jit::DataType::kF16,  jit::DataType::kBf16,
    jit::DataType::kE4m3, jit::DataType::kE5m2, jit::DataType::kS8,
    jit::DataType::kU8,   jit::DataType::kB1,   jit::DataType::kS32};

// Both sides have one word per type: "bf16" and DATA_TYPE_BF16.
v1::DataType ToWire(jit::DataType type) {
  v1::DataType wire = v1::DATA_TYPE_UNSPECIFIED;
  CHECK(v1::DataType_Parse(
      absl::StrCat("DATA_TYPE_", absl::AsciiStrToUpper(jit::Name(type))),
      &wire));
  return wire;
}

v1::Order ToWire(jit::Order order) {
  return order == jit::Order::kRowMajor ? v1::ORDER_ROW_MAJOR
                                        : v1::ORDER_COLUMN_MAJOR;
}

absl::StatusOr<jit::DataType> FromWire(absl::string_view field,
                                       v1::DataType wire) {
  for (jit::DataType type : kDataTypes) {
    if (ToWire(type) == wire) return type;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", wire, ", which is no element type"));
}

jit::Order FromWire(v1::Order wire) {
  return wire == v1::ORDER_COLUMN_MAJOR ? jit::Order::kColumnMajor
                                        : jit::Order::kRowMajor;
}

// The fields of v1::Problem that stand for something here.
constexpr absl::string_view kRead[] = {
    "m",      "n",       "k",       "a_type",  "b_type", "c_type",
    "d_type", "a_order", "b_order", "d_order", "alpha",  "beta"};

absl::Status CheckNothingElse(const v1::Problem& wire) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  wire.GetReflection()->ListFields(wire, &fields);
  for (const auto* field : fields) {
    if (absl::c_linear_search(kRead, field->name())) continue;
    return absl::UnimplementedError(absl::StrCat(
        field->name(), " is set; read here: ", absl::StrJoin(kRead, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::Problem> ToWire(const jit::Problem& problem) {
  v1::Problem wire;
  wire.set_m(problem.m);
  wire.set_n(problem.n);
  wire.set_k(problem.k);
  wire.set_a_type(ToWire(problem.a_type));
  wire.set_b_type(ToWire(problem.b_type));
  wire.set_c_type(ToWire(problem.c_type));
  wire.set_d_type(ToWire(problem.d_type));
  wire.set_a_order(ToWire(problem.a_order));
  wire.set_b_order(ToWire(problem.b_order));
  wire.set_d_order(ToWire(problem.d_order));
  wire.set_alpha(problem.alpha);
  wire.set_beta(problem.beta);
  ASSIGN_OR_RETURN(const jit::Problem read, FromWire(wire));
  if (jit::ProblemLine(read) != jit::ProblemLine(problem)) {
    return absl::UnimplementedError(
        "it has options that cannot be sent to a daemon");
  }
  return wire;
}

absl::StatusOr<jit::Problem> FromWire(const v1::Problem& wire) {
  RETURN_IF_ERROR(CheckNothingElse(wire));
  jit::Problem problem;
  problem.m = wire.m();
  problem.n = wire.n();
  problem.k = wire.k();
  // An absent type is that of its neighbour, as the API says.
  ASSIGN_OR_RETURN(problem.a_type, FromWire("a_type", wire.a_type()));
  ASSIGN_OR_RETURN(problem.b_type, FromWire("b_type", wire.b_type()));
  problem.d_type = problem.a_type;
  if (wire.d_type() != v1::DATA_TYPE_UNSPECIFIED) {
    ASSIGN_OR_RETURN(problem.d_type, FromWire("d_type", wire.d_type()));
  }
  problem.c_type = problem.d_type;
  if (wire.c_type() != v1::DATA_TYPE_UNSPECIFIED) {
    ASSIGN_OR_RETURN(problem.c_type, FromWire("c_type", wire.c_type()));
  }
  problem.a_order = FromWire(wire.a_order());
  problem.b_order = FromWire(wire.b_order());
  problem.d_order = FromWire(wire.d_order());
  if (wire.has_alpha()) problem.alpha = wire.alpha();
  problem.beta = wire.beta();
  RETURN_IF_ERROR(jit::Validate(problem));
  return problem;
}

}  // namespace gemmd::warmup
