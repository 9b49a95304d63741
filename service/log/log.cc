#include "service/log/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"

namespace gemmd::log {
namespace {

bool IsPlain(absl::string_view value) {
  return !value.empty() && std::ranges::all_of(value, [](unsigned char c) {
    return absl::ascii_isgraph(c) && c != '"' && c != '=' && c != '\\';
  });
}

}  // namespace

std::string Format(absl::string_view event,
                   std::initializer_list<Field> fields) {
  std::string line = absl::StrCat("event=", event);
  for (const Field& field : fields) {
    absl::StrAppend(&line, " ", field.key, "=");
    if (IsPlain(field.value)) {
      line += field.value;
    } else {
      absl::StrAppend(&line, "\"", absl::Utf8SafeCEscape(field.value), "\"");
    }
  }
  return line;
}

void Write(Level level, absl::string_view event,
           std::initializer_list<Field> fields) {
  const std::string line = Format(event, fields);
  switch (level) {
    case Level::kInfo:
      spdlog::info("{}", line);
      return;
    case Level::kWarning:
      spdlog::warn("{}", line);
      return;
    case Level::kError:
      spdlog::error("{}", line);
      return;
  }
}

void Initialize() {
  auto logger = std::make_shared<spdlog::logger>(
      "gemmd", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(std::make_unique<spdlog::pattern_formatter>(
      "%Y-%m-%dT%H:%M:%S.%eZ level=%l %v", spdlog::pattern_time_type::utc));
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace gemmd::log
