#include "service/rpc/convert.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"

namespace gemmd::rpc {
namespace {

constexpr std::pair<v1::DataType, jit::DataType> kDataTypes[] = {
    {v1::DATA_TYPE_F32, jit::DataType::kF32},
    {v1::DATA_TYPE_F16, jit::DataType::kF16},
    {v1::DATA_TYPE_BF16, jit::DataType::kBf16},
    {v1::DATA_TYPE_E4M3, jit::DataType::kE4m3},
    {v1::DATA_TYPE_E5M2, jit::DataType::kE5m2},
    {v1::DATA_TYPE_S8, jit::DataType::kS8},
    {v1::DATA_TYPE_U8, jit::DataType::kU8},
    {v1::DATA_TYPE_B1, jit::DataType::kB1},
    {v1::DATA_TYPE_S32, jit::DataType::kS32},
};

// An enum or count that is served only with its default.
absl::Status OnlyDefault(absl::string_view field, int64_t value,
                         bool is_default, bool is_known,
                         absl::string_view served) {
  if (is_default) return absl::OkStatus();
  const std::string text =
      absl::StrCat("problem.", field, " is ", value, "; ",
                   is_known ? "served: " : "allowed: ", served);
  return is_known ? absl::UnimplementedError(text)
                  : absl::InvalidArgumentError(text);
}

absl::Status CheckServed(const v1::Problem& wire) {
  RETURN_IF_ERROR(OnlyDefault("batch", wire.batch(),
                              wire.batch() == 0 || wire.batch() == 1,
                              wire.batch() > 0, "0 or 1"));
  RETURN_IF_ERROR(
      OnlyDefault("accumulator", wire.accumulator(),
                  wire.accumulator() == v1::ACCUMULATOR_UNSPECIFIED ||
                      wire.accumulator() == v1::ACCUMULATOR_F32,
                  v1::Accumulator_IsValid(wire.accumulator()),
                  "ACCUMULATOR_UNSPECIFIED or ACCUMULATOR_F32"));
  RETURN_IF_ERROR(OnlyDefault("precision", wire.precision(),
                              wire.precision() == v1::PRECISION_UNSPECIFIED,
                              v1::Precision_IsValid(wire.precision()),
                              "PRECISION_UNSPECIFIED"));
  RETURN_IF_ERROR(OnlyDefault(
      "sparsity", wire.sparsity(), wire.sparsity() == v1::SPARSITY_UNSPECIFIED,
      v1::Sparsity_IsValid(wire.sparsity()), "SPARSITY_UNSPECIFIED"));
  return OnlyDefault("activation", wire.activation(),
                     wire.activation() == v1::ACTIVATION_UNSPECIFIED,
                     v1::Activation_IsValid(wire.activation()),
                     "ACTIVATION_UNSPECIFIED");
}

v1::CubinSource ToWire(engine::KernelSource source) {
  switch (source) {
    case engine::KernelSource::kNone:
      return v1::CUBIN_SOURCE_UNSPECIFIED;
    case engine::KernelSource::kLoaded:
      return v1::CUBIN_SOURCE_LOADED;
    case engine::KernelSource::kMemory:
      return v1::CUBIN_SOURCE_MEMORY;
    case engine::KernelSource::kDisk:
      return v1::CUBIN_SOURCE_DISK;
    case engine::KernelSource::kCompiled:
      return v1::CUBIN_SOURCE_COMPILED;
  }
  return v1::CUBIN_SOURCE_UNSPECIFIED;
}

}  // namespace

absl::StatusOr<jit::DataType> ToDataType(int wire, absl::string_view field) {
  for (const auto& [theirs, ours] : kDataTypes) {
    if (theirs == wire) return ours;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(field, wire == 0 ? " is unspecified" : " is ",
                   wire == 0 ? "" : absl::StrCat(wire),
                   "; allowed: a value of DataType other than 0"));
}

absl::StatusOr<jit::Order> ToOrder(int wire, absl::string_view field) {
  switch (wire) {
    case v1::ORDER_UNSPECIFIED:
    case v1::ORDER_ROW_MAJOR:
      return jit::Order::kRowMajor;
    case v1::ORDER_COLUMN_MAJOR:
      return jit::Order::kColumnMajor;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat(field, " is ", wire,
                       "; allowed: ORDER_ROW_MAJOR or ORDER_COLUMN_MAJOR"));
  }
}

absl::StatusOr<jit::Problem> ToProblem(const v1::Problem& wire) {
  jit::Problem problem;
  problem.m = wire.m();
  problem.n = wire.n();
  problem.k = wire.k();
  ASSIGN_OR_RETURN(problem.a_type, ToDataType(wire.a_type(), "problem.a_type"));
  ASSIGN_OR_RETURN(problem.b_type, ToDataType(wire.b_type(), "problem.b_type"));
  problem.d_type = problem.a_type;
  if (wire.d_type() != v1::DATA_TYPE_UNSPECIFIED) {
    ASSIGN_OR_RETURN(problem.d_type,
                     ToDataType(wire.d_type(), "problem.d_type"));
  }
  problem.c_type = problem.d_type;
  if (wire.c_type() != v1::DATA_TYPE_UNSPECIFIED) {
    ASSIGN_OR_RETURN(problem.c_type,
                     ToDataType(wire.c_type(), "problem.c_type"));
  }
  ASSIGN_OR_RETURN(problem.a_order, ToOrder(wire.a_order(), "problem.a_order"));
  ASSIGN_OR_RETURN(problem.b_order, ToOrder(wire.b_order(), "problem.b_order"));
  ASSIGN_OR_RETURN(problem.d_order, ToOrder(wire.d_order(), "problem.d_order"));
  problem.alpha = wire.has_alpha() ? wire.alpha() : 1.0f;
  problem.beta = wire.has_beta() ? wire.beta() : 0.0f;
  RETURN_IF_ERROR(CheckServed(wire));
  RETURN_IF_ERROR(jit::Validate(problem));
  return problem;
}

v1::DataType ToWire(jit::DataType type) {
  for (const auto& [theirs, ours] : kDataTypes) {
    if (ours == type) return theirs;
  }
  return v1::DATA_TYPE_UNSPECIFIED;
}

v1::Order ToWire(jit::Order order) {
  return order == jit::Order::kRowMajor ? v1::ORDER_ROW_MAJOR
                                        : v1::ORDER_COLUMN_MAJOR;
}

v1::Execution ToWire(const engine::Execution& execution) {
  v1::Execution wire;
  wire.set_device(execution.device);
  wire.set_kernel(execution.kernel);
  wire.set_cubin_key(execution.cubin_key);
  wire.set_cubin_source(ToWire(execution.source));
  const engine::Phases& phases = execution.phases;
  v1::Phases& out = *wire.mutable_phases();
  out.set_queue_us(absl::ToInt64Microseconds(phases.queue));
  out.set_plan_us(absl::ToInt64Microseconds(phases.plan));
  out.set_compile_us(absl::ToInt64Microseconds(phases.compile));
  out.set_upload_us(absl::ToInt64Microseconds(phases.upload));
  out.set_execute_us(absl::ToInt64Microseconds(phases.execute));
  out.set_download_us(absl::ToInt64Microseconds(phases.download));
  return wire;
}

}  // namespace gemmd::rpc
