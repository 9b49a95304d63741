// Structured log lines: one event name and key=value fields, values quoted
// where they need it. Never payload, never secrets. Thread-safe.
#ifndef GEMMD_SERVICE_LOG_LOG_H_
#define GEMMD_SERVICE_LOG_LOG_H_

#include <initializer_list>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace gemmd::log {

enum class Level { kInfo, kWarning, kError };

struct Field {
  Field(absl::string_view key, const absl::AlphaNum& value)
      : key(key), value(value.Piece()) {}

  absl::string_view key;
  std::string value;
};

// Writes "2026-11-21T01:02:03.004Z level=info event=listening address=...".
void Write(Level level, absl::string_view event,
           std::initializer_list<Field> fields = {});

// The line without time and level; for tests.
std::string Format(absl::string_view event,
                   std::initializer_list<Field> fields);

// Sends lines to standard error in the format above. Call once, first.
void Initialize();

}  // namespace gemmd::log

#endif  // GEMMD_SERVICE_LOG_LOG_H_
