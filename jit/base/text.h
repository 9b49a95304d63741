// Which texts of others may be shown to people: their terminals obey control
// characters. And what a power cut leaves of a text.
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

// What was written of the content of a file that grows line by line: a power
// cut may leave zeros behind it, where the file had grown and its bytes had not
// reached the disk.
absl::string_view WithoutZerosAtEnd(absl::string_view text);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_BASE_TEXT_H_
