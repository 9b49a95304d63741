#include "service/rpc/kserve/parameters.h"

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

absl::Status Wrong(absl::string_view name, absl::string_view allowed) {
  return absl::InvalidArgumentError(absl::StrCat(
      "parameter '", name, "' has a wrong value; allowed: ", allowed));
}

absl::Status ReadNumber(absl::string_view name, const InferParameter& value,
                        float& to) {
  switch (value.parameter_choice_case()) {
    case InferParameter::kDoubleParam:
      to = static_cast<float>(value.double_param());
      return absl::OkStatus();
    case InferParameter::kInt64Param:
      to = static_cast<float>(value.int64_param());
      return absl::OkStatus();
    case InferParameter::kUint64Param:
      to = static_cast<float>(value.uint64_param());
      return absl::OkStatus();
    case InferParameter::kStringParam:
      if (absl::SimpleAtof(value.string_param(), &to)) {
        return absl::OkStatus();
      }
      [[fallthrough]];
    default:
      return Wrong(name, "a number");
  }
}

absl::Status ReadBool(absl::string_view name, const InferParameter& value,
                      bool& to) {
  if (value.parameter_choice_case() != InferParameter::kBoolParam) {
    return Wrong(name, "true or false");
  }
  to = value.bool_param();
  return absl::OkStatus();
}

absl::Status ReadType(absl::string_view name, const InferParameter& value,
                      jit::DataType& to) {
  ASSIGN_OR_RETURN(to, ToDataType(value.string_param(),
                                  absl::StrCat("parameter '", name, "'")));
  return absl::OkStatus();
}

// As the option of a problem line that is called `option`.
absl::Status ReadOption(absl::string_view name, absl::string_view option,
                        const InferParameter& value, jit::Problem& problem) {
  const absl::Status read = jit::ParseProblemOption(
      absl::StrCat(option, "=", value.string_param()), problem);
  return read.ok() ? read : Wrong(name, jit::AllowedValues(option));
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
       return ReadType(name, value, problem.d_type);
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
       return ReadType(name, value, problem.accumulator);
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
