// Structured log lines: one event name and fields, as key=value or as one JSON
// object a line. Values are quoted where they need it, cut off at 2 KiB, and
// cannot control a terminal: clients choose some of them. Never payload, never
// secrets. Thread-safe.
//
// Nobody waits for a line to be written. Where standard error is slow, the
// oldest lines that wait are dropped and counted (event=log_lines_dropped).
// More than a burst of lines of one event, then ten a second, are left out
// and counted too: the event's next line says how many (suppressed=).
#ifndef GEMMD_SERVICE_LOG_LOG_H_
#define GEMMD_SERVICE_LOG_LOG_H_

#include <initializer_list>
#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gemmd::log {

enum class Level { kInfo, kWarning, kError };
enum class Style { kText, kJson };

// One without a key is left out.
struct Field {
  Field(absl::string_view key, const absl::AlphaNum& value)
      : key(key), value(value.Piece()) {}
  template <typename T, typename = std::enable_if_t<std::is_integral_v<T>>>
  Field(absl::string_view key, T value)
      : key(key), value(absl::StrCat(value)), is_number(true) {}

  absl::string_view key;
  std::string value;
  bool is_number = false;
};

// Writes "2026-11-21T01:02:03.004Z level=info event=listening address=..." or
// {"time":"2026-...","level":"info","event":"listening","address":"..."}.
void Write(Level level, absl::string_view event,
           std::initializer_list<Field> fields = {});

// The line without time and level, and of JSON without braces; for tests.
std::string Format(absl::string_view event, std::initializer_list<Field> fields,
                   Style style = Style::kText);

// Sends lines to standard error in the format above, by a thread of its own.
// Call once, first.
void Initialize(Style style = Style::kText);

// Returns when the lines up to now are written, at the latest after `limit`.
// Before the process ends.
void Flush(absl::Duration limit);

}  // namespace gemmd::log

#endif  // GEMMD_SERVICE_LOG_LOG_H_
