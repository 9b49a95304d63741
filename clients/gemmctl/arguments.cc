#include "clients/gemmctl/arguments.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gemmd::gemmctl {
namespace {

// "-1.5" and "-" are arguments, "-o" and "--alpha" are flags.
bool IsFlag(absl::string_view word) {
  double number = 0;
  return word.size() > 1 && word[0] == '-' && !absl::SimpleAtod(word, &number);
}

}  // namespace

absl::StatusOr<Arguments> Arguments::Parse(absl::Span<const Flag> flags,
                                           absl::Span<char* const> words,
                                           size_t least, size_t most) {
  Arguments arguments;
  for (const Flag& flag : flags) {
    arguments.values_[flag.name] = flag.default_value;
  }
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i];
    if (!IsFlag(word)) {
      arguments.positional_.push_back(word);
      continue;
    }
    const size_t equals =
        absl::StartsWith(word, "--") ? word.find('=') : std::string::npos;
    const std::string name = word.substr(0, equals);
    const auto flag =
        std::find_if(flags.begin(), flags.end(),
                     [&](const Flag& known) { return known.name == name; });
    if (flag == flags.end()) {
      return absl::InvalidArgumentError(absl::StrCat("unknown flag ", name));
    }
    std::string& value = arguments.values_[name];
    if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (flag->value.empty()) {
      value = "true";
    } else if (i + 1 < words.size()) {
      value = words[++i];
    } else {
      return absl::InvalidArgumentError(absl::StrCat(name, " needs a value"));
    }
  }
  const size_t count = arguments.positional_.size();
  if (count < least || count > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(count < least ? "too few" : "too many", " arguments"));
  }
  return arguments;
}

const std::string& Arguments::Get(absl::string_view flag) const {
  static const std::string* const absent = new std::string;
  const auto found = values_.find(flag);
  return found == values_.end() ? *absent : found->second;
}

absl::StatusOr<double> Arguments::GetNumber(absl::string_view flag) const {
  double number = 0;
  if (absl::SimpleAtod(Get(flag), &number)) return number;
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": '", Get(flag), "' is not a number"));
}

absl::StatusOr<int64_t> Arguments::GetInteger(absl::string_view flag) const {
  int64_t number = 0;
  if (absl::SimpleAtoi(Get(flag), &number)) return number;
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": '", Get(flag), "' is not an integer"));
}

std::string FlagHelp(absl::Span<const Flag> flags) {
  std::string text;
  for (const Flag& flag : flags) {
    const std::string left = flag.value.empty()
                                 ? flag.name
                                 : absl::StrCat(flag.name, " ", flag.value);
    absl::StrAppendFormat(&text, "  %-22s %s", left, flag.help);
    if (!flag.default_value.empty()) {
      absl::StrAppend(&text, " (default ", flag.default_value, ")");
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace gemmd::gemmctl
