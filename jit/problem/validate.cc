// Validate: whether a problem is one that can be asked.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "jit/base/status.h"
#include "jit/problem/epilogue_choices.h"
#include "jit/problem/problem.h"
#include "jit/problem/sizes.h"

namespace gemmd::jit {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
// Well-defined products that no instruction computes.
constexpr auto kUnserved = absl::StatusCode::kUnimplemented;

absl::Status Refuse(absl::StatusCode code, absl::string_view field,
                    absl::string_view value, absl::string_view allowed) {
  return absl::Status(
      code, absl::StrCat("problem.", field, " is ", value,
                         code == kUnserved ? "; served" : "; allowed", ": ",
                         allowed));
}

absl::Status ValidateDimension(absl::string_view field, int64_t value) {
  if (value >= 0 && value <= kMaxDimension) return absl::OkStatus();
  return Refuse(kInvalid, field, absl::StrCat(value),
                absl::StrCat("0 to ", kMaxDimension));
}

// A field of the table of arithmetics, in the order in which they are judged:
// each is held against the rows that agree in all before it.
struct Field {
  absl::string_view name;
  absl::StatusCode code;
  std::string (*value)(const Arithmetic&);
};

template <auto member>
std::string NameOf(const Arithmetic& arithmetic) {
  return std::string(Name(arithmetic.*member));
}

constexpr Field kFields[] = {
    {"sparse", kUnserved, NameOf<&Arithmetic::sparse>},
    {"a_type", kUnserved, NameOf<&Arithmetic::a>},
    {"b_type", kUnserved, NameOf<&Arithmetic::b>},
    {"accumulator", kUnserved, NameOf<&Arithmetic::accumulator>},
    {"precision", kInvalid, NameOf<&Arithmetic::precision>},
    {"saturate", kInvalid,
     [](const Arithmetic& arithmetic) {
       return std::string(arithmetic.clamps ? "true" : "false");
     }},
    {"bit_operation", kInvalid, NameOf<&Arithmetic::bit_operation>},
};

absl::Status ValidateArithmetic(const Arithmetic& asked) {
  // What follows finds the words for a refusal, and takes its time.
  if (absl::c_linear_search(Arithmetics(), asked)) return absl::OkStatus();
  std::vector<Arithmetic> rows(Arithmetics().begin(), Arithmetics().end());
  std::vector<std::string> agreed;
  for (const Field& field : kFields) {
    const std::string value = field.value(asked);
    const auto differs = [&](const Arithmetic& row) {
      return field.value(row) != value;
    };
    if (!std::all_of(rows.begin(), rows.end(), differs)) {
      std::erase_if(rows, differs);
      if (value != "none") {
        agreed.push_back(absl::StrCat(field.name, " ", value));
      }
      continue;
    }
    std::vector<std::string> allowed;
    for (const Arithmetic& row : rows) {
      const std::string other = field.value(row);
      if (std::find(allowed.begin(), allowed.end(), other) == allowed.end()) {
        allowed.push_back(other);
      }
    }
    std::string text = absl::StrJoin(allowed, ", ");
    if (!agreed.empty()) {
      absl::StrAppend(&text, " with ", absl::StrJoin(agreed, ", "));
    }
    absl::StrAppend(&text,
                    ". The nearest that is served: ", Name(rows.front()));
    return Refuse(field.code, field.name, value, text);
  }
  return absl::OkStatus();
}

template <typename Enum>
absl::Status OneOf(absl::StatusCode code, absl::string_view field, Enum value,
                   absl::Span<const Enum> allowed,
                   absl::string_view condition = "") {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) {
    return absl::OkStatus();
  }
  const auto append = [](std::string* out, Enum one) {
    absl::StrAppend(out, Name(one));
  };
  return Refuse(code, field, Name(value),
                absl::StrCat(absl::StrJoin(allowed, ", ", append), condition));
}

absl::Status ValidateSparse(const Problem& problem) {
  if (problem.sparse == Sparse::kNone) return absl::OkStatus();
  const bool a = problem.sparse == Sparse::kA;
  const Order along_k = a ? Order::kRowMajor : Order::kColumnMajor;
  const Order order = a ? problem.a_order : problem.b_order;
  if (order != along_k) {
    return Refuse(
        kInvalid, a ? "a_order" : "b_order", Name(order),
        absl::StrCat(Name(along_k), " with sparse ", Name(problem.sparse),
                     ": the lines of a sparse operand run along k"));
  }
  const int chunk = ChunkOf(a ? problem.a_type : problem.b_type);
  if (problem.k % chunk == 0) return absl::OkStatus();
  return Refuse(kInvalid, "k", absl::StrCat(problem.k),
                absl::StrCat("multiples of ", chunk, " with sparse ",
                             Name(problem.sparse), " of ",
                             Name(a ? problem.a_type : problem.b_type)));
}

absl::Status ValidateQuantization(const Problem& problem) {
  if (problem.quantization == Quantization()) return absl::OkStatus();
  if (!problem.mixed()) {
    return Refuse(kInvalid, "quantization", "given",
                  absl::StrCat("nothing with ", Name(problem.arithmetic()),
                               "; it is of weights that are widened to the "
                               "type of the other operand, such as bf16-s4"));
  }
  const bool b = problem.weights_are_b();
  RETURN_IF_ERROR(Validate(problem.quantization,
                           b ? problem.b_type : problem.a_type,
                           "problem.quantization"));
  const Order along_k = b ? Order::kColumnMajor : Order::kRowMajor;
  const Order order = b ? problem.b_order : problem.a_order;
  if (order == along_k) return absl::OkStatus();
  return Refuse(kInvalid, b ? "b_order" : "a_order", Name(order),
                absl::StrCat(Name(along_k),
                             " with problem.quantization: the lines of "
                             "quantized weights run along k"));
}

absl::Status ValidateOutputs(const Problem& problem) {
  const std::string sums =
      absl::StrCat(" with sums in ", Name(problem.accumulator));
  RETURN_IF_ERROR(OneOf<DataType>(kUnserved, "d_type", problem.d_type,
                                  OutputsOf(problem.accumulator), sums));
  if (!problem.reads_c()) return absl::OkStatus();
  std::vector<DataType> c_types = {problem.d_type};
  if (problem.d_type != DataType::kS32 && problem.d_type != DataType::kF32) {
    c_types.push_back(DataType::kF32);
  }
  return OneOf<DataType>(kUnserved, "c_type", problem.c_type, c_types,
                         absl::StrCat(" with d_type ", Name(problem.d_type)));
}

absl::Status ValidateExtents(const Problem& problem) {
  using enum Extent;
  const Epilogue& epilogue = problem.epilogue;
  RETURN_IF_ERROR(
      OneOf<Extent>(kInvalid, "epilogue.bias", epilogue.bias, kBiasExtents));
  RETURN_IF_ERROR(OneOf<Extent>(kInvalid, "epilogue.a_scale", epilogue.a_scale,
                                kAScaleExtents));
  RETURN_IF_ERROR(OneOf<Extent>(kInvalid, "epilogue.b_scale", epilogue.b_scale,
                                kBScaleExtents));
  const bool a = epilogue.a_scale == kBlock;
  const bool b = epilogue.b_scale == kBlock;
  if (a != b) {
    return Refuse(kUnserved, a ? "epilogue.b_scale" : "epilogue.a_scale",
                  Name(a ? epilogue.b_scale : epilogue.a_scale),
                  "block, because the other scale is by block");
  }
  if (a && !(IsFp8(problem.a_type) && IsFp8(problem.b_type) &&
             problem.sparse == Sparse::kNone &&
             problem.accumulator == DataType::kF32 &&
             problem.precision == Precision::kDefault)) {
    return Refuse(
        kUnserved, "epilogue.a_scale", "block",
        absl::StrCat("none, tensor, row with ", Name(problem.arithmetic()),
                     "; block with sums of e4m3 and e5m2, both dense, that are "
                     "promoted"));
  }
  return absl::OkStatus();
}

// D in s32 is computed in s32: there are no f32 steps.
absl::Status ValidateIntegerResult(const Problem& problem) {
  for (const auto& [field, value] :
       {std::pair{"alpha", problem.alpha}, {"beta", problem.beta}}) {
    if (value != 0 && value != 1) {
      return Refuse(kInvalid, field, absl::StrCat(value),
                    "0 or 1 with d_type s32");
    }
  }
  const Epilogue& epilogue = problem.epilogue;
  const auto word = [](bool asked) { return asked ? "true" : "false"; };
  const std::pair<absl::string_view, absl::string_view> steps[] = {
      {"epilogue.bias", Name(epilogue.bias)},
      {"epilogue.a_scale", Name(epilogue.a_scale)},
      {"epilogue.b_scale", Name(epilogue.b_scale)},
      {"epilogue.d_scale", word(epilogue.d_scale)},
      {"activation", Name(epilogue.activation)},
      {"epilogue.auxiliary", word(epilogue.writes_auxiliary)},
      {"epilogue.amax", word(epilogue.measures_amax)}};
  for (const auto& [field, value] : steps) {
    if (value == "none" || value == "false") continue;
    return Refuse(kUnserved, field, value,
                  absl::StrCat(value == "true" ? "false" : "none",
                               " with d_type s32; the nearest d_type that "
                               "goes with it: f32"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const Quantization& quantization, DataType weights,
                      absl::string_view field) {
  const auto [group, zero_points] = quantization;
  std::vector<DataType> types;
  for (const Arithmetic& row : Arithmetics()) {
    if (IsMixed(row.a, row.b) && WeightsAreB(row.a, row.b) &&
        !absl::c_linear_search(types, row.b)) {
      types.push_back(row.b);
    }
  }
  if (!absl::c_linear_search(types, weights)) {
    const auto append = [](std::string* out, DataType type) {
      absl::StrAppend(out, Name(type));
    };
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is given with elements of ", Name(weights),
                     "; allowed with: ", absl::StrJoin(types, ", ", append)));
  }
  if (group == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ".zero_points is true; allowed without a group: false"));
  }
  if (group != 32 && group != 64 && group != 128 && group != kWholeLine) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ".group is ", group, "; allowed: 32, 64, 128, 0 (all of k)"));
  }
  if (zero_points && BitsOf(weights) != 4) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".zero_points is true; allowed with elements of ",
                     Name(weights), ": false; true with s4, u4"));
  }
  return absl::OkStatus();
}

absl::Status Validate(const Problem& problem) {
  RETURN_IF_ERROR(ValidateDimension("m", problem.m));
  RETURN_IF_ERROR(ValidateDimension("n", problem.n));
  RETURN_IF_ERROR(ValidateDimension("k", problem.k));
  RETURN_IF_ERROR(ValidateDimension("batch", problem.batch));
  RETURN_IF_ERROR(ValidateArithmetic(problem.arithmetic()));
  RETURN_IF_ERROR(ValidateSparse(problem));
  RETURN_IF_ERROR(CheckSizes(problem));
  RETURN_IF_ERROR(ValidateQuantization(problem));
  RETURN_IF_ERROR(ValidateOutputs(problem));
  RETURN_IF_ERROR(ValidateExtents(problem));
  if (problem.d_type == DataType::kS32) {
    RETURN_IF_ERROR(ValidateIntegerResult(problem));
  }
  return absl::OkStatus();
}

}  // namespace gemmd::jit
