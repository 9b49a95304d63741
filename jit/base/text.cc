#include "jit/base/text.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace gemmd::jit {
namespace {

constexpr size_t kMaxNameBytes = 200;

// Whether a control character that nobody needs starts at `at`.
bool IsControl(absl::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (absl::ascii_iscntrl(byte)) return byte != '\n' && byte != '\t';
  // U+0080 to U+009F are 0xC2 0x80 to 0xC2 0x9F.
  return byte == 0xc2 && at + 1 < text.size() &&
         static_cast<unsigned char>(text[at + 1]) < 0xa0;
}

}  // namespace

bool IsName(absl::string_view text) {
  constexpr absl::string_view kMarks = "_.:+-";
  return !text.empty() && text.size() <= kMaxNameBytes &&
         std::all_of(text.begin(), text.end(), [kMarks](unsigned char c) {
           return absl::ascii_isalnum(c) ||
                  kMarks.find(static_cast<char>(c)) != kMarks.npos;
         });
}

bool IsPlainText(absl::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (IsControl(text, i)) return false;
  }
  return true;
}

std::string ToPlainText(std::string text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (IsControl(text, i)) text[i] = '?';
  }
  return text;
}

absl::string_view WithoutZerosAtEnd(absl::string_view text) {
  return text.substr(0, text.find_last_not_of('\0') + 1);  // npos + 1 is 0.
}

}  // namespace gemmd::jit
