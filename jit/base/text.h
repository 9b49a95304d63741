// Which texts of others may be shown to people: their terminals obey control
// characters.
#ifndef GEMMD_JIT_BASE_TEXT_H_
#define GEMMD_JIT_BASE_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace gemmd::jit {

// 1 to 200 letters, digits and "_.:+-".
bool IsName(absl::string_view text);

// No control characters but line ends and tabs, neither those of ASCII nor
// those of UTF-8.
bool IsPlainText(absl::string_view text);

// `text` with '?' in place of what IsPlainText does not allow.
std::string ToPlainText(std::string text);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_BASE_TEXT_H_
