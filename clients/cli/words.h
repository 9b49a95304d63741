// The words of a line, as a shell has them but for what it expands.
#ifndef GEMMD_CLIENTS_CLI_WORDS_H_
#define GEMMD_CLIENTS_CLI_WORDS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd::cli {

// Between blanks. '...' and "..." hold blanks, anywhere in a word, and after a
// backslash the quote that they end with. INVALID_ARGUMENT where one does not.
absl::StatusOr<std::vector<std::string>> SplitWords(absl::string_view line);

}  // namespace gemmd::cli

#endif  // GEMMD_CLIENTS_CLI_WORDS_H_
