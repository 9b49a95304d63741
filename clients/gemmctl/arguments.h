// Command lines: gemmctl COMMAND [FLAGS] ARGUMENTS, flags anywhere.
// Immutable after parsing, thread-safe.
#ifndef GEMMD_CLIENTS_GEMMCTL_ARGUMENTS_H_
#define GEMMD_CLIENTS_GEMMCTL_ARGUMENTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace gemmd::gemmctl {

struct Flag {
  std::string name;   // "--alpha", or "-o".
  std::string value;  // What it takes, for --help; "" for a switch.
  std::string help;
  std::string default_value;  // "" means that the flag is not given.
};

class Arguments {
 public:
  // INVALID_ARGUMENT for an unknown flag, a missing value, or positional
  // arguments fewer than `least` or more than `most`.
  static absl::StatusOr<Arguments> Parse(absl::Span<const Flag> flags,
                                         absl::Span<char* const> words,
                                         size_t least, size_t most);

  const std::vector<std::string>& positional() const { return positional_; }
  // Value or default; "" when absent.
  const std::string& Get(absl::string_view flag) const;
  bool Has(absl::string_view flag) const { return !Get(flag).empty(); }
  // INVALID_ARGUMENT that names the flag when the value is not a number.
  absl::StatusOr<double> GetNumber(absl::string_view flag) const;
  absl::StatusOr<int64_t> GetInteger(absl::string_view flag) const;

 private:
  std::map<std::string, std::string, std::less<>> values_;
  std::vector<std::string> positional_;
};

// One line for each flag.
std::string FlagHelp(absl::Span<const Flag> flags);

}  // namespace gemmd::gemmctl

#endif  // GEMMD_CLIENTS_GEMMCTL_ARGUMENTS_H_
