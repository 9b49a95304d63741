#include "service/rpc/convert.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
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

// Wire values of one enum and what they mean.
template <typename T>
using Meanings = absl::Span<const std::pair<int, T>>;

template <typename T>
absl::StatusOr<T> Translate(int wire, Meanings<T> meanings,
                            absl::string_view field,
                            const google::protobuf::EnumDescriptor& names) {
  std::string allowed;
  for (const auto& [theirs, ours] : meanings) {
    if (theirs == wire) return ours;
    absl::StrAppend(&allowed, allowed.empty() ? "" : ", ",
                    names.FindValueByNumber(theirs)->name());
  }
  const auto* named = names.FindValueByNumber(wire);
  return absl::InvalidArgumentError(
      absl::StrCat("problem.", field, " is ",
                   named != nullptr ? named->name() : absl::StrCat(wire),
                   "; allowed: ", allowed));
}

constexpr std::pair<int, jit::Precision> kPrecisions[] = {
    {v1::PRECISION_UNSPECIFIED, jit::Precision::kDefault},
    {v1::PRECISION_FAST, jit::Precision::kFast},
    {v1::PRECISION_TF32, jit::Precision::kTf32},
};

constexpr std::pair<int, jit::BitOperation> kBitOperations[] = {
    {v1::BIT_OPERATION_UNSPECIFIED, jit::BitOperation::kAnd},
    {v1::BIT_OPERATION_AND, jit::BitOperation::kAnd},
    {v1::BIT_OPERATION_XOR, jit::BitOperation::kXor},
};

constexpr std::pair<int, jit::Activation> kActivations[] = {
    {v1::ACTIVATION_UNSPECIFIED, jit::Activation::kNone},
    {v1::ACTIVATION_RELU, jit::Activation::kRelu},
    {v1::ACTIVATION_GELU_ERF, jit::Activation::kGeluErf},
    {v1::ACTIVATION_GELU_TANH, jit::Activation::kGeluTanh},
    {v1::ACTIVATION_SILU, jit::Activation::kSilu},
};

constexpr std::pair<int, jit::Extent> kExtents[] = {
    {v1::EXTENT_UNSPECIFIED, jit::Extent::kNone},
    {v1::EXTENT_TENSOR, jit::Extent::kTensor},
    {v1::EXTENT_ROW, jit::Extent::kRow},
    {v1::EXTENT_COLUMN, jit::Extent::kColumn},
    {v1::EXTENT_BLOCK, jit::Extent::kBlock},
};

absl::Status SetArithmetic(const v1::Problem& wire, jit::Problem& problem) {
  const std::pair<int, jit::DataType> accumulators[] = {
      {v1::ACCUMULATOR_UNSPECIFIED, jit::DefaultAccumulator(problem.a_type)},
      {v1::ACCUMULATOR_F32, jit::DataType::kF32},
      {v1::ACCUMULATOR_F16, jit::DataType::kF16},
      {v1::ACCUMULATOR_S32, jit::DataType::kS32},
  };
  ASSIGN_OR_RETURN(
      problem.accumulator,
      Translate<jit::DataType>(wire.accumulator(), accumulators, "accumulator",
                               *v1::Accumulator_descriptor()));
  ASSIGN_OR_RETURN(
      problem.precision,
      Translate<jit::Precision>(wire.precision(), kPrecisions, "precision",
                                *v1::Precision_descriptor()));
  problem.clamps = wire.saturate();
  ASSIGN_OR_RETURN(problem.bit_operation,
                   Translate<jit::BitOperation>(
                       wire.bit_operation(), kBitOperations, "bit_operation",
                       *v1::BitOperation_descriptor()));
  if (wire.sparsity() == v1::SPARSITY_UNSPECIFIED) return absl::OkStatus();
  const std::string text = absl::StrCat("problem.sparsity is ", wire.sparsity(),
                                        "; served: SPARSITY_UNSPECIFIED");
  return v1::Sparsity_IsValid(wire.sparsity())
             ? absl::UnimplementedError(text)
             : absl::InvalidArgumentError(text);
}

absl::StatusOr<jit::Extent> ToExtent(int wire, absl::string_view field) {
  return Translate<jit::Extent>(wire, kExtents, field,
                                *v1::Extent_descriptor());
}

absl::StatusOr<jit::Epilogue> ToEpilogue(const v1::Problem& wire) {
  const v1::Epilogue& given = wire.epilogue();
  jit::Epilogue epilogue;
  ASSIGN_OR_RETURN(epilogue.bias, ToExtent(given.bias(), "epilogue.bias"));
  ASSIGN_OR_RETURN(epilogue.a_scale,
                   ToExtent(given.a_scale(), "epilogue.a_scale"));
  ASSIGN_OR_RETURN(epilogue.b_scale,
                   ToExtent(given.b_scale(), "epilogue.b_scale"));
  epilogue.d_scale = given.d_scale();
  ASSIGN_OR_RETURN(
      epilogue.activation,
      Translate<jit::Activation>(wire.activation(), kActivations, "activation",
                                 *v1::Activation_descriptor()));
  epilogue.writes_auxiliary = given.auxiliary();
  epilogue.measures_amax = given.amax();
  return epilogue;
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
  problem.batch = wire.has_batch() ? wire.batch() : 1;
  problem.d_type = jit::DefaultOutput(problem.a_type);
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
  RETURN_IF_ERROR(SetArithmetic(wire, problem));
  ASSIGN_OR_RETURN(problem.epilogue, ToEpilogue(wire));
  problem.invariant = wire.invariant();
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
