#include "service/rpc/kserve/parameters.h"

#include <cmath>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "jit/problem/problem_option.h"
#include "service/rpc/kserve/datatype.h"
#include "service/rpc/kserve/text.h"

namespace gemmd::rpc::kserve {
namespace {

using inference::InferParameter;

// As errors show it.
std::string Shown(const InferParameter& value) {
  switch (value.parameter_choice_case()) {
    case InferParameter::kBoolParam:
      return value.bool_param() ? "true" : "false";
    case InferParameter::kInt64Param:
      return absl::StrCat(value.int64_param());
    case InferParameter::kUint64Param:
      return absl::StrCat(value.uint64_param());
    case InferParameter::kDoubleParam:
      return absl::StrCat(value.double_param());
    case InferParameter::kStringParam:
      return Quoted(value.string_param());
    case InferParameter::PARAMETER_CHOICE_NOT_SET:
      break;
  }
  return "without a value";
}

absl::Status Wrong(absl::string_view name, const InferParameter& value,
                   absl::string_view allowed) {
  return absl::InvalidArgumentError(absl::StrCat(
      "parameter '", name, "' is ", Shown(value), "; allowed: ", allowed));
}

absl::Status ReadNumber(absl::string_view name, const InferParameter& value,
                        float& to) {
  double number = 0;
  switch (value.parameter_choice_case()) {
    case InferParameter::kDoubleParam:
      number = value.double_param();
      break;
    case InferParameter::kInt64Param:
      number = static_cast<double>(value.int64_param());
      break;
    case InferParameter::kUint64Param:
      number = static_cast<double>(value.uint64_param());
      break;
    case InferParameter::kStringParam:
      if (absl::SimpleAtod(value.string_param(), &number)) break;
      [[fallthrough]];
    default:
      return Wrong(name, value, "a number");
  }
  to = static_cast<float>(number);
  if (std::isfinite(number) && !std::isfinite(to)) {
    return Wrong(name, value, "what FP32 holds");
  }
  return absl::OkStatus();
}

absl::Status ReadBool(absl::string_view name, const InferParameter& value,
                      bool& to) {
  if (value.parameter_choice_case() != InferParameter::kBoolParam) {
    return Wrong(name, value, "true or false");
  }
  to = value.bool_param();
  return absl::OkStatus();
}

absl::Status ReadType(absl::string_view name, const InferParameter& value,
                      Use use, jit::DataType& to) {
  if (!value.has_string_param()) return Wrong(name, value, "a text");
  ASSIGN_OR_RETURN(to, ToDataType(value.string_param(),
                                  absl::StrCat("parameter '", name, "'"), use));
  return absl::OkStatus();
}

// As the option of a problem line that is called `option`.
absl::Status ReadOption(absl::string_view name, absl::string_view option,
                        const InferParameter& value, jit::Problem& problem) {
  const absl::Status read = jit::ParseProblemOption(
      absl::StrCat(option, "=", value.string_param()), problem);
  return read.ok() ? read : Wrong(name, value, jit::AllowedValues(option));
}

struct Parameter {
  absl::string_view name;
  absl::Status (*read)(absl::string_view name, const InferParameter& value,
                       jit::Problem& problem);
};

constexpr Parameter kParameters[] = {
    {"alpha",
     [](absl::string_view name, const InferParameter& value,
        jit::Problem& problem) {
       return ReadNumber(name, value, problem.alpha);
     }},
    {"beta",
     [](absl::string_view name, const InferParameter& value,
        jit::Problem& problem) {
       return ReadNumber(name, value, problem.beta);
     }},
    {"out_dtype",
     [](absl::string_view name, const InferParameter& value,
        jit::Problem& problem) {
       return ReadType(name, value, Use::kAny, problem.d_type);
     }},
    {"activation",
     [](absl::string_view name, const InferParameter& value,
        jit::Problem& problem) {
       return ReadOption(name, "act", value, problem);
     }},
    {"precision",
     [](absl::string_view name, const InferParameter& value,
        jit::Problem& problem) {
       return ReadOption(name, "precision", value, problem);
     }},
    {"accumulate",
     [](absl::string_view name, const InferParameter& value,
        jit::Problem& problem) {
       return ReadType(name, value, Use::kSummed, problem.accumulator);
     }},
    {"saturate",
     [](absl::string_view name, const InferParameter& value,
        jit::Problem& problem) {
       return ReadBool(name, value, problem.clamps);
     }},
    {"invariant",
     [](absl::string_view name, const InferParameter& value,
        jit::Problem& problem) {
       return ReadBool(name, value, problem.invariant);
     }},
};

// Order and patience of other servers' queues, and what their clients add by
// themselves.
bool SaysNothing(absl::string_view name) {
  return name == "priority" || name == "timeout" ||
         absl::StartsWith(name, "triton_");
}

}  // namespace

absl::Status Apply(const Parameters& parameters, jit::Problem& problem) {
  for (const auto& [name, value] : parameters) {
    if (SaysNothing(name)) continue;
    std::string allowed;
    const Parameter* found = nullptr;
    for (const Parameter& parameter : kParameters) {
      if (parameter.name == name) found = &parameter;
      absl::StrAppend(&allowed, allowed.empty() ? "" : ", ", parameter.name);
    }
    if (found == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("parameter ", Quoted(name),
                       " is unknown; allowed for model 'matmul': ", allowed));
    }
    RETURN_IF_ERROR(found->read(found->name, value, problem));
  }
  return absl::OkStatus();
}

absl::Status CheckNone(const Parameters& parameters, absl::string_view of) {
  for (const auto& [name, value] : parameters) {
    if (SaysNothing(name)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "parameter ", Quoted(name), " is not for ", of, "; allowed: none"));
  }
  return absl::OkStatus();
}

}  // namespace gemmd::rpc::kserve
