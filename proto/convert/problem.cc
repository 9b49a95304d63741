#include "proto/convert/problem.h"

#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "jit/base/status.h"

namespace gemmd::convert {
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
    {v1::DATA_TYPE_S4, jit::DataType::kS4},
    {v1::DATA_TYPE_U4, jit::DataType::kU4},
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
  return absl::InvalidArgumentError(absl::StrCat(
      field, " is ", named != nullptr ? named->name() : absl::StrCat(wire),
      "; allowed: ", allowed));
}

// The first wire value that means `ours`, but UNSPECIFIED where another does.
template <typename T>
int Wire(T ours, Meanings<T> meanings) {
  int wire = 0;
  for (const auto& [theirs, meaning] : meanings) {
    if (meaning == ours && wire == 0) wire = theirs;
  }
  return wire;
}

constexpr std::pair<int, jit::Precision> kPrecisions[] = {
    {v1::PRECISION_UNSPECIFIED, jit::Precision::kDefault},
    {v1::PRECISION_FAST, jit::Precision::kFast},
    {v1::PRECISION_TF32, jit::Precision::kTf32},
};

std::array<std::pair<int, jit::DataType>, 4> Accumulators(
    const jit::Problem& problem) {
  return {{{v1::ACCUMULATOR_UNSPECIFIED,
            jit::DefaultAccumulator(problem.a_type, problem.b_type)},
           {v1::ACCUMULATOR_F32, jit::DataType::kF32},
           {v1::ACCUMULATOR_F16, jit::DataType::kF16},
           {v1::ACCUMULATOR_S32, jit::DataType::kS32}}};
}

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

constexpr std::pair<int, bool> kSparsities[] = {
    {v1::SPARSITY_UNSPECIFIED, false},
    {v1::SPARSITY_2_4, true},
};

absl::StatusOr<jit::Sparse> ToSparse(const v1::Problem& wire) {
  ASSIGN_OR_RETURN(const bool a,
                   ToSparsity(wire.sparsity(), "problem.sparsity"));
  ASSIGN_OR_RETURN(const bool b,
                   ToSparsity(wire.b_sparsity(), "problem.b_sparsity"));
  if (a && b) {
    return absl::InvalidArgumentError(
        "problem.b_sparsity is SPARSITY_2_4; allowed: SPARSITY_UNSPECIFIED, "
        "because problem.sparsity is SPARSITY_2_4 and one operand at most is "
        "sparse");
  }
  return a ? jit::Sparse::kA : b ? jit::Sparse::kB : jit::Sparse::kNone;
}

absl::Status SetArithmetic(const v1::Problem& wire, jit::Problem& problem) {
  const auto accumulators = Accumulators(problem);
  ASSIGN_OR_RETURN(problem.accumulator,
                   Translate<jit::DataType>(wire.accumulator(), accumulators,
                                            "problem.accumulator",
                                            *v1::Accumulator_descriptor()));
  ASSIGN_OR_RETURN(problem.precision,
                   Translate<jit::Precision>(wire.precision(), kPrecisions,
                                             "problem.precision",
                                             *v1::Precision_descriptor()));
  problem.clamps = wire.saturate();
  ASSIGN_OR_RETURN(
      problem.bit_operation,
      Translate<jit::BitOperation>(wire.bit_operation(), kBitOperations,
                                   "problem.bit_operation",
                                   *v1::BitOperation_descriptor()));
  ASSIGN_OR_RETURN(problem.sparse, ToSparse(wire));
  return absl::OkStatus();
}

absl::StatusOr<jit::Extent> ToExtent(int wire, absl::string_view field) {
  return Translate<jit::Extent>(wire, kExtents, field,
                                *v1::Extent_descriptor());
}

absl::StatusOr<jit::Epilogue> ToEpilogue(const v1::Problem& wire) {
  const v1::Epilogue& given = wire.epilogue();
  jit::Epilogue epilogue;
  ASSIGN_OR_RETURN(epilogue.bias,
                   ToExtent(given.bias(), "problem.epilogue.bias"));
  ASSIGN_OR_RETURN(epilogue.a_scale,
                   ToExtent(given.a_scale(), "problem.epilogue.a_scale"));
  ASSIGN_OR_RETURN(epilogue.b_scale,
                   ToExtent(given.b_scale(), "problem.epilogue.b_scale"));
  epilogue.d_scale = given.d_scale();
  ASSIGN_OR_RETURN(epilogue.activation,
                   Translate<jit::Activation>(wire.activation(), kActivations,
                                              "problem.activation",
                                              *v1::Activation_descriptor()));
  epilogue.writes_auxiliary = given.auxiliary();
  epilogue.measures_amax = given.amax();
  return epilogue;
}

v1::Extent ToWire(jit::Extent extent) {
  return v1::Extent(Wire<jit::Extent>(extent, kExtents));
}

void SetEpilogue(const jit::Epilogue& epilogue, v1::Problem& wire) {
  v1::Epilogue& given = *wire.mutable_epilogue();
  given.set_bias(ToWire(epilogue.bias));
  given.set_a_scale(ToWire(epilogue.a_scale));
  given.set_b_scale(ToWire(epilogue.b_scale));
  given.set_d_scale(epilogue.d_scale);
  given.set_auxiliary(epilogue.writes_auxiliary);
  given.set_amax(epilogue.measures_amax);
  wire.set_activation(
      v1::Activation(Wire<jit::Activation>(epilogue.activation, kActivations)));
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

absl::StatusOr<bool> ToSparsity(int wire, absl::string_view field) {
  return Translate<bool>(wire, kSparsities, field, *v1::Sparsity_descriptor());
}

absl::StatusOr<jit::Quantization> ToQuantization(const v1::Quantization& wire,
                                                 absl::string_view field) {
  // What stands for a whole line here is no group of the API.
  if (wire.group() == jit::kWholeLine) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".group is ", wire.group(),
                     "; allowed: 32, 64, 128, 0 (all of k)"));
  }
  return jit::Quantization{
      .group = wire.group() == 0 ? jit::kWholeLine : wire.group(),
      .zero_points = wire.zero_points()};
}

absl::StatusOr<jit::Problem> ReadProblem(const v1::Problem& wire) {
  jit::Problem problem;
  problem.m = wire.m();
  problem.n = wire.n();
  problem.k = wire.k();
  ASSIGN_OR_RETURN(problem.a_type, ToDataType(wire.a_type(), "problem.a_type"));
  ASSIGN_OR_RETURN(problem.b_type, ToDataType(wire.b_type(), "problem.b_type"));
  problem.batch = wire.has_batch() ? wire.batch() : 1;
  problem.d_type = jit::DefaultOutput(problem.a_type, problem.b_type);
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
  if (wire.has_quantization()) {
    ASSIGN_OR_RETURN(
        problem.quantization,
        ToQuantization(wire.quantization(), "problem.quantization"));
  }
  return problem;
}

absl::StatusOr<jit::Problem> ToProblem(const v1::Problem& wire) {
  ASSIGN_OR_RETURN(jit::Problem problem, ReadProblem(wire));
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

v1::Sparsity SparsityOf(bool sparse) {
  return sparse ? v1::SPARSITY_2_4 : v1::SPARSITY_UNSPECIFIED;
}

v1::Quantization ToWire(const jit::Quantization& quantization) {
  v1::Quantization wire;
  const int32_t group = quantization.group;
  wire.set_group(group == jit::kWholeLine ? 0 : group);
  wire.set_zero_points(quantization.zero_points);
  return wire;
}

v1::Problem ToWire(const jit::Problem& problem) {
  v1::Problem wire;
  wire.set_m(problem.m);
  wire.set_n(problem.n);
  wire.set_k(problem.k);
  wire.set_batch(problem.batch);
  wire.set_a_type(ToWire(problem.a_type));
  wire.set_b_type(ToWire(problem.b_type));
  wire.set_c_type(ToWire(problem.c_type));
  wire.set_d_type(ToWire(problem.d_type));
  wire.set_accumulator(v1::Accumulator(
      Wire<jit::DataType>(problem.accumulator, Accumulators(problem))));
  wire.set_precision(
      v1::Precision(Wire<jit::Precision>(problem.precision, kPrecisions)));
  wire.set_a_order(ToWire(problem.a_order));
  wire.set_b_order(ToWire(problem.b_order));
  wire.set_d_order(ToWire(problem.d_order));
  wire.set_alpha(problem.alpha);
  wire.set_beta(problem.beta);
  wire.set_saturate(problem.clamps);
  wire.set_bit_operation(v1::BitOperation(
      Wire<jit::BitOperation>(problem.bit_operation, kBitOperations)));
  wire.set_sparsity(SparsityOf(problem.sparse == jit::Sparse::kA));
  wire.set_b_sparsity(SparsityOf(problem.sparse == jit::Sparse::kB));
  wire.set_invariant(problem.invariant);
  if (problem.quantization.group != 0) {
    *wire.mutable_quantization() = ToWire(problem.quantization);
  }
  SetEpilogue(problem.epilogue, wire);
  return wire;
}

}  // namespace gemmd::convert
