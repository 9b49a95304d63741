// The arguments of one subcommand: --name value, --name=value, --switch, and
// what is left over. Thread-compatible.
#ifndef GEMMD_CLIENTS_WARMUP_FLAGS_H_
#define GEMMD_CLIENTS_WARMUP_FLAGS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd::warmup {

struct FlagSpec {
  std::string name;   // Without the dashes.
  std::string value;  // Placeholder such as "DIR"; empty for a switch.
  std::string help;
};

class Flags {
 public:
  // INVALID_ARGUMENT for a flag that is not in `specs` or lacks its value.
  static absl::StatusOr<Flags> Parse(const std::vector<FlagSpec>& specs,
                                     const std::vector<std::string>& arguments);

  bool Has(const std::string& name) const { return values_.contains(name); }
  std::string Get(const std::string& name, absl::string_view otherwise) const;
  // INVALID_ARGUMENT when the value is not an integer from `least`.
  absl::StatusOr<int64_t> GetInt(const std::string& name, int64_t otherwise,
                                 int64_t least) const;
  // INVALID_ARGUMENT when the flag is absent.
  absl::StatusOr<std::string> Require(const std::string& name) const;

  const std::vector<std::string>& positional() const { return positional_; }

 private:
  std::map<std::string, std::string> values_;
  std::vector<std::string> positional_;
};

// One line per flag, aligned.
std::string DescribeFlags(const std::vector<FlagSpec>& specs);

}  // namespace gemmd::warmup

#endif  // GEMMD_CLIENTS_WARMUP_FLAGS_H_
