// Text of strangers (labels, names, what another process answered) as it may
// be shown on a terminal or in a log.
#ifndef GEMMD_JIT_BASE_PRINTABLE_H_
#define GEMMD_JIT_BASE_PRINTABLE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace gemmd::jit {

// `text` with everything that moves a cursor, starts an escape sequence, is
// invisible or changes the direction of writing as "\n", "\x1b", "\u202e";
// bytes that are not UTF-8 as "\xff". All other UTF-8 stays as it is.
std::string Printable(absl::string_view text);

// The same for text of many lines, such as a compiler's log: line ends and
// tabs stay.
std::string PrintableLines(absl::string_view text);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_BASE_PRINTABLE_H_
