// What somebody may have meant who mistyped a word.
#ifndef GEMMD_CLIENTS_CLI_NEAREST_H_
#define GEMMD_CLIENTS_CLI_NEAREST_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gemmd::cli {

// The one of `known` that is the fewest letters away from `word`, the first of
// several; empty when none is close enough to be meant.
std::string Nearest(absl::string_view word,
                    const std::vector<std::string>& known);

}  // namespace gemmd::cli

#endif  // GEMMD_CLIENTS_CLI_NEAREST_H_
