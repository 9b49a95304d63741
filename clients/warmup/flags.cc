#include "clients/warmup/flags.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "clients/cli/quantity.h"

namespace gemmd::warmup {
namespace {

std::string Dashed(const std::string& name) {
  return absl::StrCat("--", absl::StrReplaceAll(name, {{"_", "-"}}));
}

absl::Status Wrong(const std::string& name, const std::string& value,
                   absl::string_view allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat(Dashed(name), " is ", value, "; allowed: ", allowed));
}

// Whose value is not empty, as that of cli::Command::File: an unset variable of
// a script does not take away the key or the authorities that were meant.
bool NamesAFile(const FlagSpec& spec) {
  return spec.value == "FILE" || spec.value == "DIR" || spec.value == "PATH";
}

}  // namespace

void Flags::Declare(cli::Command& command, const std::vector<FlagSpec>& specs,
                    const std::string& operands, Flags& flags) {
  for (const FlagSpec& spec : specs) {
    const std::string name = spec.name;
    if (spec.value.empty()) {
      command.Switch(Dashed(name), flags.switches_[name], spec.help);
      continue;
    }
    command.Parsed(
        absl::StrCat(Dashed(name), " ", spec.value), "",
        [&flags, spec](const std::string& value) {
          if (value.empty() && NamesAFile(spec)) {
            return absl::InvalidArgumentError("a name");
          }
          flags.values_[spec.name] = value;
          return absl::OkStatus();
        },
        spec.help);
  }
  if (!operands.empty()) {
    // "[FILE]..." and "DIR DIR" are lists of FILE and DIR.
    const std::string name =
        operands.substr(0, operands.find(' ')).substr(operands[0] == '[');
    command.Operands(name.substr(0, name.find(']')), flags.positional_, 0, "");
  }
}

bool Flags::Has(const std::string& name) const {
  const auto found = switches_.find(name);
  return found == switches_.end() ? values_.contains(name) : found->second;
}

std::string Flags::Get(const std::string& name,
                       absl::string_view otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::string(otherwise) : found->second;
}

absl::StatusOr<int64_t> Flags::GetInt(const std::string& name,
                                      int64_t otherwise, int64_t least,
                                      int64_t most) const {
  if (!Has(name)) return otherwise;
  int64_t value;
  if (absl::SimpleAtoi(Get(name, ""), &value) && value >= least &&
      value <= most) {
    return value;
  }
  return Wrong(name, Get(name, ""),
               most == std::numeric_limits<int64_t>::max()
                   ? absl::StrCat("from ", least)
                   : absl::StrCat(least, " to ", most));
}

absl::StatusOr<int64_t> Flags::GetBytes(const std::string& name,
                                        int64_t otherwise) const {
  if (!Has(name)) return otherwise;
  const absl::StatusOr<int64_t> bytes = cli::ParseBytes(Get(name, ""));
  if (bytes.ok()) return bytes;
  return Wrong(name, Get(name, ""), bytes.status().message());
}

absl::StatusOr<absl::Duration> Flags::GetDuration(
    const std::string& name, absl::Duration otherwise) const {
  if (!Has(name)) return otherwise;
  const absl::StatusOr<absl::Duration> duration =
      cli::ParseDuration(Get(name, ""), absl::Seconds(1));
  if (duration.ok()) return duration;
  return Wrong(name, Get(name, ""), duration.status().message());
}

absl::StatusOr<std::string> Flags::Require(const std::string& name) const {
  if (Get(name, "").empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Dashed(name), " is missing; see --help"));
  }
  return Get(name, "");
}

}  // namespace gemmd::warmup
