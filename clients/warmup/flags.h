// The arguments of one subcommand, by name, and what is left over.
// Thread-compatible.
#ifndef GEMMD_CLIENTS_WARMUP_FLAGS_H_
#define GEMMD_CLIENTS_WARMUP_FLAGS_H_

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "clients/cli/command_line.h"

namespace gemmd::warmup {

struct FlagSpec {
  std::string name;  // "cache_dir" is --cache-dir.
  // Placeholder; empty for a switch. FILE, DIR and PATH take no empty value.
  std::string value;
  std::string help;
};

class Flags {
 public:
  // Makes `command` fill `flags`, which outlives the parse, with the flags of
  // `specs`, and with operands when `operands` names them.
  static void Declare(cli::Command& command, const std::vector<FlagSpec>& specs,
                      const std::string& operands, Flags& flags);

  bool Has(const std::string& name) const;
  std::string Get(const std::string& name, absl::string_view otherwise) const;
  // These are INVALID_ARGUMENT when the value is out of range or malformed.
  absl::StatusOr<int64_t> GetInt(
      const std::string& name, int64_t otherwise, int64_t least,
      int64_t most = std::numeric_limits<int64_t>::max()) const;
  absl::StatusOr<int64_t> GetBytes(const std::string& name,
                                   int64_t otherwise) const;
  // A bare number counts seconds.
  absl::StatusOr<absl::Duration> GetDuration(const std::string& name,
                                             absl::Duration otherwise) const;
  // INVALID_ARGUMENT when the flag is absent.
  absl::StatusOr<std::string> Require(const std::string& name) const;

  const std::vector<std::string>& positional() const { return positional_; }

 private:
  std::map<std::string, std::string> values_;
  std::map<std::string, bool> switches_;
  std::vector<std::string> positional_;
};

}  // namespace gemmd::warmup

#endif  // GEMMD_CLIENTS_WARMUP_FLAGS_H_
