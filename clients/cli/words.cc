#include "clients/cli/words.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace gemmd::cli {

absl::StatusOr<std::vector<std::string>> SplitWords(absl::string_view line) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;  // Which may be empty: ''.
  char quote = 0;        // That we are in; 0: none.
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else if (c == '\\' && i + 1 < line.size() && line[i + 1] == quote) {
        word += line[++i];
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (!absl::ascii_isspace(static_cast<unsigned char>(c))) {
      word += c;
      in_word = true;
    } else if (in_word) {
      words.push_back(std::exchange(word, ""));
      in_word = false;
    }
  }
  if (quote != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the quote ", absl::string_view(&quote, 1), " is not ended in ", line));
  }
  if (in_word) words.push_back(std::move(word));
  return words;
}

}  // namespace gemmd::cli
