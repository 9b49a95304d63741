// The lines of a file of options: TOML without tables, dates and strings of
// several lines; words need no quotes.
//
//   # of this machine
//   lanes = 5
//   listen = ["127.0.0.1:50051",
//             'unix:/run/gemmd.sock']  # both
//
// A pure function.
#ifndef GEMMD_CLIENTS_CLI_CONFIG_FILE_H_
#define GEMMD_CLIENTS_CLI_CONFIG_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd::cli {

struct Setting {
  std::string name;
  std::vector<std::string> values;  // One, or those of a list.
  int line;                         // Where it begins; from 1.
};

// In the order of `text`, names as often as they stand there. INVALID_ARGUMENT
// names the line: what is not understood may be the option that keeps others
// out, so nothing is skipped.
absl::StatusOr<std::vector<Setting>> ParseSettings(absl::string_view text);

}  // namespace gemmd::cli

#endif  // GEMMD_CLIENTS_CLI_CONFIG_FILE_H_
