#include "clients/warmup/flags.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gemmd::warmup {

absl::StatusOr<Flags> Flags::Parse(const std::vector<FlagSpec>& specs,
                                   const std::vector<std::string>& arguments) {
  Flags flags;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!absl::StartsWith(argument, "--")) {
      flags.positional_.push_back(argument);
      continue;
    }
    const size_t equals = argument.find('=');
    std::string name =
        argument.substr(2, equals == argument.npos ? equals : equals - 2);
    std::replace(name.begin(), name.end(), '-', '_');
    const auto spec =
        std::find_if(specs.begin(), specs.end(),
                     [&name](const FlagSpec& s) { return s.name == name; });
    if (spec == specs.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown flag --", name, "; see --help"));
    }
    if (equals != argument.npos) {
      flags.values_[name] = argument.substr(equals + 1);
    } else if (spec->value.empty()) {
      flags.values_[name] = "";
    } else if (i + 1 < arguments.size()) {
      flags.values_[name] = arguments[++i];
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("--", name, " needs a value: ", spec->value));
    }
  }
  return flags;
}

std::string Flags::Get(const std::string& name,
                       absl::string_view otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::string(otherwise) : found->second;
}

absl::StatusOr<int64_t> Flags::GetInt(const std::string& name,
                                      int64_t otherwise, int64_t least) const {
  if (!Has(name)) return otherwise;
  int64_t value;
  if (!absl::SimpleAtoi(Get(name, ""), &value) || value < least) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, " is '", Get(name, ""),
                     "'; allowed: an integer from ", least));
  }
  return value;
}

absl::StatusOr<std::string> Flags::Require(const std::string& name) const {
  if (Get(name, "").empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, " is missing; see --help"));
  }
  return Get(name, "");
}

std::string DescribeFlags(const std::vector<FlagSpec>& specs) {
  std::string text;
  for (const FlagSpec& spec : specs) {
    absl::StrAppendFormat(
        &text, "  %-22s %s\n",
        absl::StrCat("--", spec.name, spec.value.empty() ? "" : " ",
                     spec.value),
        spec.help);
  }
  return text;
}

}  // namespace gemmd::warmup
