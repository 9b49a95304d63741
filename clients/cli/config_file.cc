#include "clients/cli/config_file.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "jit/base/status.h"

namespace gemmd::cli {
namespace {

constexpr char kAllowed[] = "; allowed: \"name = value\" lines";

// Reads from the front of what is left of the text.
class Reader {
 public:
  explicit Reader(absl::string_view text) : rest_(text) {}

  absl::StatusOr<std::vector<Setting>> Settings() {
    std::vector<Setting> settings;
    for (SkipLines(); !rest_.empty(); SkipLines()) {
      Setting setting{.line = line_};
      ASSIGN_OR_RETURN(setting.name, Name());
      ASSIGN_OR_RETURN(setting.values, Values());
      RETURN_IF_ERROR(EndLine());
      settings.push_back(std::move(setting));
    }
    return settings;
  }

 private:
  static absl::Status Wrong(int line, absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", what));
  }
  absl::Status Wrong(absl::string_view what) const {
    return Wrong(line_, what);
  }

  bool AtEndOfLine() const { return rest_.empty() || rest_[0] == '\n'; }

  bool Consume(absl::string_view character) {
    return absl::ConsumePrefix(&rest_, character);
  }

  // What stands before one of `ends`, or the end of the text.
  absl::string_view Until(absl::string_view ends) {
    const absl::string_view found = rest_.substr(0, rest_.find_first_of(ends));
    rest_.remove_prefix(found.size());
    return found;
  }

  // Blanks and a comment. A carriage return ends that, too: where it is all
  // that ends lines, a comment would hide what follows.
  void SkipBlanks() {
    while (true) {
      const size_t blanks = rest_.find_first_not_of(" \t\r");
      rest_.remove_prefix(std::min(blanks, rest_.size()));
      if (rest_.empty() || rest_[0] != '#') return;
      Until("\r\n");
    }
  }

  void SkipLines() {
    for (SkipBlanks(); Consume("\n"); SkipBlanks()) ++line_;
  }

  // What is left of the line, to be shown.
  std::string Here() {
    return absl::StrCat("'", absl::StripAsciiWhitespace(Until("\n")), "'");
  }

  // With the equals sign.
  absl::StatusOr<std::string> Name() {
    if (rest_[0] == '[') {
      return Wrong(absl::StrCat(absl::StripAsciiWhitespace(Until("\n#")),
                                " is a section", kAllowed));
    }
    std::string name;
    if (AtQuote()) {
      ASSIGN_OR_RETURN(name, Quoted());
    } else {
      name = std::string(absl::StripAsciiWhitespace(Until("=#\n")));
    }
    SkipBlanks();
    if (!Consume("=")) {
      return Wrong(absl::StrCat("no value follows '", name, "'", kAllowed));
    }
    if (name.empty()) {
      return Wrong(absl::StrCat("no name is before =", kAllowed));
    }
    return name;
  }

  absl::StatusOr<std::vector<std::string>> Values() {
    SkipBlanks();
    std::vector<std::string> values;
    if (!Consume("[")) {
      ASSIGN_OR_RETURN(values.emplace_back(), Value(kEndsOfWord));
      return values;
    }
    const int start = line_;
    for (bool comma = true;;) {
      SkipLines();
      if (rest_.empty()) {
        return Wrong(start, "a list begins that no ] ends");
      }
      if (Consume("]")) return values;
      if (!comma) {
        return Wrong(absl::StrCat(Here(),
                                  " follows a value of the list of line ",
                                  start, "; allowed: a comma, ]"));
      }
      ASSIGN_OR_RETURN(values.emplace_back(), Value(kEndsOfListed));
      SkipLines();
      comma = Consume(",");
    }
  }

  absl::StatusOr<std::string> Value(absl::string_view ends) {
    if (AtQuote()) return Quoted();
    std::string word(Until(ends));
    if (!word.empty()) return word;
    return Wrong(absl::StrCat(
        AtEndOfLine() ? "the end of the line" : Here(),
        " is where a value should be; allowed: \"\" for an empty one"));
  }

  bool AtQuote() const {
    return !rest_.empty() && (rest_[0] == '"' || rest_[0] == '\'');
  }

  // '...' is as it stands there, "..." but for a backslash before a backslash
  // or a quote. TOML's other escapes are refused, and not taken for letters.
  absl::StatusOr<std::string> Quoted() {
    const char quote = rest_[0];
    const absl::string_view ends = quote == '"' ? "\"\\\n" : "'\n";
    std::string value;
    while (true) {
      rest_.remove_prefix(1);
      absl::StrAppend(&value, Until(ends));
      if (AtEndOfLine()) {
        return Wrong(absl::StrCat("a quote begins that no ",
                                  absl::string_view(&quote, 1), " ends"));
      }
      if (rest_[0] == quote) break;
      rest_.remove_prefix(1);
      if (rest_.empty() || (rest_[0] != '"' && rest_[0] != '\\')) {
        return Wrong(
            R"(\ is in "..."; allowed: \\ and \" there, and \ in '...')");
      }
      value += rest_[0];
    }
    rest_.remove_prefix(1);
    return value;
  }

  absl::Status EndLine() {
    SkipBlanks();
    if (AtEndOfLine()) return absl::OkStatus();
    return Wrong(absl::StrCat(Here(),
                              " follows a value; allowed: a comment, and "
                              "quotes around all of the value"));
  }

  // Of one without quotes.
  static constexpr char kEndsOfWord[] = " \t\r\n#\"'=[]";
  static constexpr char kEndsOfListed[] = " \t\r\n#\"'=[],";

  absl::string_view rest_;
  int line_ = 1;
};

}  // namespace

absl::StatusOr<std::vector<Setting>> ParseSettings(absl::string_view text) {
  return Reader(text).Settings();
}

}  // namespace gemmd::cli
