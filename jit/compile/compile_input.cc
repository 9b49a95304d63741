#include "jit/compile/compile_input.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace gemmd::jit {
namespace {

// All that CompileOptions and the instances of this program give, word for
// word. Options that open files (--time, --include-path, --use-pch, ...) have
// no place here.
constexpr absl::string_view kOptions[] = {"--gpu-architecture=sm_90a",
                                          "-arch=sm_90a",
                                          "--std=c++20",
                                          "--device-as-default-execution-space",
                                          "--ptxas-options=-v",
                                          "--no-cache",
                                          "--fmad=false"};

// Directives that open files, by the start of their names.
constexpr absl::string_view kDirectives[] = {"include", "import", "embed"};
// Operators that look for files, and trigraphs, which spell '#' and '\' anew.
constexpr absl::string_view kWords[] = {"__has_include", "__has_embed",
                                        "?\?=", "?\?/"};

// `source` with lines joined where a backslash ends one, as the preprocessor
// joins them before it looks for anything.
std::string JoinLines(absl::string_view source) {
  std::string joined;
  joined.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\\') {
      // Compilers forgive white space before the line's end.
      size_t end = i + 1;
      while (end < source.size() && source[end] != '\n' &&
             absl::ascii_isspace(source[end])) {
        ++end;
      }
      if (end < source.size() && source[end] == '\n') {
        i = end;
        continue;
      }
    }
    joined.push_back(source[i]);
  }
  return joined;
}

// Takes white space and comments off the start of `text`, which may stand
// between '#' and the name of a directive.
void SkipBlanks(absl::string_view& text) {
  while (!text.empty()) {
    if (absl::ascii_isspace(text[0]) && text[0] != '\n') {
      text.remove_prefix(1);
    } else if (absl::StartsWith(text, "/*")) {
      const size_t end = text.find("*/", 2);
      text.remove_prefix(end == text.npos ? text.size() : end + 2);
    } else {
      return;
    }
  }
}

// Whether `text`, which follows a '#', names a directive that opens a file.
bool OpensFile(absl::string_view text) {
  SkipBlanks(text);
  // A name that is spelled with \u is none of ours.
  if (absl::StartsWith(text, "\\")) return true;
  if (absl::ConsumePrefix(&text, "pragma")) {
    SkipBlanks(text);
    return absl::StartsWith(text, "GCC");  // "dependency" names a file.
  }
  return std::any_of(
      std::begin(kDirectives), std::end(kDirectives),
      [text](absl::string_view name) { return absl::StartsWith(text, name); });
}

}  // namespace

absl::Status CheckCompileInput(absl::string_view source,
                               const std::vector<std::string>& options) {
  for (const std::string& option : options) {
    if (std::find(std::begin(kOptions), std::end(kOptions), option) ==
        std::end(kOptions)) {
      return absl::InternalError(
          absl::StrCat("compiler option \"", absl::CHexEscape(option),
                       "\" is refused: it is none that this program gives"));
    }
  }
  const std::string joined = JoinLines(source);
  const absl::string_view text = joined;
  for (const absl::string_view word : kWords) {
    if (absl::StrContains(text, word)) {
      return absl::InternalError(
          absl::StrCat("a source with \"", word, "\" is refused"));
    }
  }
  for (const absl::string_view mark : {"#", "%:"}) {
    for (size_t at = text.find(mark); at != text.npos;
         at = text.find(mark, at + 1)) {
      if (OpensFile(text.substr(at + mark.size()))) {
        return absl::InternalError(
            "a source that includes a file is refused: sources are compiled "
            "with all includes expanded");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace gemmd::jit
