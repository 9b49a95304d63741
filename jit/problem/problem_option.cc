#include "jit/problem/problem_option.h"

#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "jit/base/status.h"
#include "jit/problem/epilogue_choices.h"

namespace gemmd::jit {
namespace {

// Sets `to` to the value of that name among `values`.
template <typename T>
absl::Status Choose(absl::string_view option, absl::string_view text,
                    absl::Span<const T> values, T& to) {
  for (const T value : values) {
    if (Name(value) == text) {
      to = value;
      return absl::OkStatus();
    }
  }
  return WrongColumn(option, text,
                     absl::StrJoin(values, ", ", [](std::string* out, T value) {
                       absl::StrAppend(out, Name(value));
                     }));
}

absl::Status ChooseType(absl::string_view option, absl::string_view text,
                        DataType& to) {
  using enum DataType;
  return Choose<DataType>(
      option, text, {kF32, kF16, kBf16, kE4m3, kE5m2, kS8, kU8, kS32}, to);
}

absl::Status ParseScalar(absl::string_view option, absl::string_view text,
                         float& to) {
  if (absl::SimpleAtof(text, &to)) return absl::OkStatus();
  return WrongColumn(option, text, "a number");
}

absl::Status ParseBroadcast(absl::string_view text, Problem& problem) {
  problem.a_broadcast = text == "a" || text == "ab";
  problem.b_broadcast = text == "b" || text == "ab";
  const bool none = !problem.a_broadcast && !problem.b_broadcast;
  if (!none || text == "none") return absl::OkStatus();
  return WrongColumn("broadcast", text, "a, b, ab, none");
}

std::string GroupText(const Problem& problem) {
  const int32_t group = problem.quantization.group;
  if (group == kWholeLine) return "k";
  return group == 0 ? "" : absl::StrCat(group);
}

absl::Status ParseGroup(absl::string_view text, Problem& problem) {
  for (const int32_t group : {32, 64, 128, kWholeLine}) {
    problem.quantization.group = group;
    if (GroupText(problem) == text) return absl::OkStatus();
  }
  return WrongColumn("group", text, "32, 64, 128, k");
}

// What stands behind '=': "" when the option is at its default.
struct Option {
  absl::string_view name;
  absl::Status (*parse)(absl::string_view text, Problem& problem);
  std::string (*value)(const Problem& problem);
};

template <typename T>
std::string Unless(T value, T usual) {
  return value == usual ? "" : std::string(Name(value));
}

std::string ScalarUnless(float value, float usual) {
  return value == usual ? "" : absl::StrFormat("%.9g", value);
}

constexpr Option kOptions[] = {
    {"d",
     [](absl::string_view text, Problem& problem) {
       const absl::Status status = ChooseType("d", text, problem.d_type);
       problem.c_type = problem.d_type;
       return status;
     },
     [](const Problem& problem) {
       return Unless(problem.d_type,
                     DefaultOutput(problem.a_type, problem.b_type));
     }},
    {"c",
     [](absl::string_view text, Problem& problem) {
       return ChooseType("c", text, problem.c_type);
     },
     [](const Problem& problem) {
       return problem.reads_c() ? Unless(problem.c_type, problem.d_type) : "";
     }},
    {"alpha",
     [](absl::string_view text, Problem& problem) {
       return ParseScalar("alpha", text, problem.alpha);
     },
     [](const Problem& problem) { return ScalarUnless(problem.alpha, 1); }},
    {"beta",
     [](absl::string_view text, Problem& problem) {
       return ParseScalar("beta", text, problem.beta);
     },
     [](const Problem& problem) { return ScalarUnless(problem.beta, 0); }},
    {"order",
     [](absl::string_view text, Problem& problem) {
       problem.d_order = text == "row" ? Order::kRowMajor : Order::kColumnMajor;
       if (text == "row" || text == "column") return absl::OkStatus();
       return WrongColumn("order", text, "row, column");
     },
     [](const Problem& problem) -> std::string {
       return problem.d_order == Order::kRowMajor ? "row" : "";
     }},
    {"batch",
     [](absl::string_view text, Problem& problem) {
       if (absl::SimpleAtoi(text, &problem.batch)) return absl::OkStatus();
       return WrongColumn("batch", text, "an integer from 0");
     },
     [](const Problem& problem) {
       return problem.batch == 1 ? "" : absl::StrCat(problem.batch);
     }},
    {"broadcast", ParseBroadcast,
     [](const Problem& problem) {
       return absl::StrCat(problem.a_broadcast ? "a" : "",
                           problem.b_broadcast ? "b" : "");
     }},
    {"precision",
     [](absl::string_view text, Problem& problem) {
       using enum Precision;
       return Choose<Precision>("precision", text, {kDefault, kTf32, kFast},
                                problem.precision);
     },
     nullptr},
    {"acc",
     [](absl::string_view text, Problem& problem) {
       using enum DataType;
       return Choose<DataType>("acc", text, {kF32, kF16, kS32},
                               problem.accumulator);
     },
     nullptr},
    {"op",
     [](absl::string_view text, Problem& problem) {
       return Choose<BitOperation>("op", text,
                                   {BitOperation::kAnd, BitOperation::kXor},
                                   problem.bit_operation);
     },
     nullptr},
    {"group", ParseGroup, GroupText},
    {"bias",
     [](absl::string_view text, Problem& problem) {
       return Choose<Extent>("bias", text, kBiasExtents, problem.epilogue.bias);
     },
     [](const Problem& problem) {
       return Unless(problem.epilogue.bias, Extent::kNone);
     }},
    {"a_scale",
     [](absl::string_view text, Problem& problem) {
       return Choose<Extent>("a_scale", text, kAScaleExtents,
                             problem.epilogue.a_scale);
     },
     [](const Problem& problem) {
       return Unless(problem.epilogue.a_scale, Extent::kNone);
     }},
    {"b_scale",
     [](absl::string_view text, Problem& problem) {
       return Choose<Extent>("b_scale", text, kBScaleExtents,
                             problem.epilogue.b_scale);
     },
     [](const Problem& problem) {
       return Unless(problem.epilogue.b_scale, Extent::kNone);
     }},
    {"act",
     [](absl::string_view text, Problem& problem) {
       return Choose<Activation>("act", text, kActivations,
                                 problem.epilogue.activation);
     },
     [](const Problem& problem) {
       return Unless(problem.epilogue.activation, Activation::kNone);
     }},
};

// Words without a value.
struct Switch {
  absl::string_view name;
  bool& (*field)(Problem& problem);
  bool of_arithmetic = false;  // Said by the name of the arithmetic too.
};

constexpr Switch kSwitches[] = {
    {"saturate", [](Problem& p) -> bool& { return p.clamps; }, true},
    {"d_scale", [](Problem& p) -> bool& { return p.epilogue.d_scale; }},
    {"aux", [](Problem& p) -> bool& { return p.epilogue.writes_auxiliary; }},
    {"amax", [](Problem& p) -> bool& { return p.epilogue.measures_amax; }},
    {"zero_points",
     [](Problem& p) -> bool& { return p.quantization.zero_points; }},
    {"invariant", [](Problem& p) -> bool& { return p.invariant; }},
};

std::string AllNames() {
  std::string names;
  for (const Option& option : kOptions) {
    absl::StrAppend(&names, option.name, "=, ");
  }
  for (const Switch& word : kSwitches) absl::StrAppend(&names, word.name, ", ");
  names.resize(names.size() - 2);
  return names;
}

}  // namespace

absl::Status WrongColumn(absl::string_view column, absl::string_view value,
                         absl::string_view allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat(column, " is '", value, "'; allowed: ", allowed));
}

std::string AllowedValues(absl::string_view name) {
  // No option has an empty value, and what is wrong with one says the rest.
  constexpr absl::string_view kBefore = "allowed: ";
  Problem scratch;
  const absl::Status wrong =
      ParseProblemOption(absl::StrCat(name, "="), scratch);
  const absl::string_view text = wrong.message();
  return std::string(text.substr(text.find(kBefore) + kBefore.size()));
}

absl::Status ParseProblemOption(absl::string_view text, Problem& problem) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  for (const Option& option : kOptions) {
    if (option.name == parts.first) return option.parse(parts.second, problem);
  }
  for (const Switch& word : kSwitches) {
    if (word.name != text) continue;
    word.field(problem) = true;
    return absl::OkStatus();
  }
  return WrongColumn("option", text, AllNames());
}

std::string ProblemOptions(const Problem& problem) {
  std::string text;
  for (const Option& option : kOptions) {
    if (option.value == nullptr) continue;  // The arithmetic says it.
    const std::string value = option.value(problem);
    if (!value.empty()) absl::StrAppend(&text, " ", option.name, "=", value);
  }
  Problem copy = problem;
  for (const Switch& word : kSwitches) {
    if (!word.of_arithmetic && word.field(copy)) {
      absl::StrAppend(&text, " ", word.name);
    }
  }
  return text;
}

}  // namespace gemmd::jit
