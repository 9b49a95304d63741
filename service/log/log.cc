#include "service/log/log.h"

#include <spdlog/async.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "jit/base/printable.h"
#include "service/log/rate_limit.h"
#include "service/log/stderr_sink.h"

namespace gemmd::log {
namespace {

// Lines that wait for standard error; beyond it the oldest are dropped.
constexpr size_t kMaxWaiting = 1024;
// Of one value; a client may send a method's name of kilobytes.
constexpr size_t kMaxValueBytes = 2048;

bool IsPlain(absl::string_view value) {
  return !value.empty() && std::ranges::all_of(value, [](unsigned char c) {
    return absl::ascii_isgraph(c) && c != '"' && c != '=' && c != '\\';
  });
}

std::string Escaped(absl::string_view value) {
  return jit::Printable(
      absl::StrReplaceAll(value, {{"\\", "\\\\"}, {"\"", "\\\""}}));
}

// What text shows of a value is its value here.
std::string EscapedJson(absl::string_view value) {
  return absl::StrReplaceAll(jit::Printable(value),
                             {{"\\", "\\\\"}, {"\"", "\\\""}});
}

// A value as it is written, but for quotes, which is several times as long
// where there is much to escape; and what tells that some was cut off.
struct Written {
  std::string text;
  absl::string_view dots;
};
Written Cut(absl::string_view value,
            std::string (*escaped)(absl::string_view)) {
  absl::string_view part = value.substr(0, kMaxValueBytes);
  std::string text = escaped(part);
  while (text.size() > kMaxValueBytes) {
    part = part.substr(0, part.size() * kMaxValueBytes / text.size());
    text = escaped(part);
  }
  return {std::move(text), part.size() < value.size() ? "..." : ""};
}

std::string Text(absl::string_view value) {
  const auto [text, dots] = Cut(value, Escaped);
  const char* const quote = IsPlain(value) ? "" : "\"";
  return absl::StrCat(quote, text, quote, dots);
}

std::string Json(absl::string_view value) {
  const auto [text, dots] = Cut(value, EscapedJson);
  return absl::StrCat("\"", text, dots, "\"");
}

absl::Duration SteadyTime() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

// What Initialize made. Never destroyed: nobody waits at the end of the
// process for a thread that writes to a pipe that nobody reads.
struct Output {
  std::shared_ptr<spdlog::details::thread_pool> pool;
  std::shared_ptr<StderrSink> sink;
  Style style;
};
Output* output = nullptr;

}  // namespace

std::string Format(absl::string_view event, std::initializer_list<Field> fields,
                   Style style) {
  const bool json = style == Style::kJson;
  std::string line = json ? absl::StrCat("\"event\":", Json(event))
                          : absl::StrCat("event=", event);
  for (const Field& field : fields) {
    if (field.key.empty()) continue;
    if (!json) {
      absl::StrAppend(&line, " ", field.key, "=", Text(field.value));
    } else {
      absl::StrAppend(
          &line, ",\"", field.key, "\":",
          field.is_number ? std::string(field.value) : Json(field.value));
    }
  }
  return line;
}

void Write(Level level, absl::string_view event,
           std::initializer_list<Field> fields) {
  static RateLimit& limit = *new RateLimit;
  const auto suppressed = limit.Admit(event, SteadyTime());
  if (!suppressed.has_value()) return;
  const Style style = output == nullptr ? Style::kText : output->style;
  std::string line = Format(event, fields, style);
  if (*suppressed > 0) {
    absl::StrAppend(&line,
                    style == Style::kJson ? ",\"suppressed\":" : " suppressed=",
                    *suppressed);
  }
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

void Initialize(Style style) {
  output = new Output;
  output->style = style;
  output->pool = std::make_shared<spdlog::details::thread_pool>(kMaxWaiting, 1);
  output->sink = std::make_shared<StderrSink>(
      [pool = output->pool.get()] { return pool->overrun_counter(); },
      [style](size_t count) {
        return Format("log_lines_dropped", {{"count", count}}, style);
      });
  auto logger = std::make_shared<spdlog::async_logger>(
      "gemmd", output->sink, output->pool,
      spdlog::async_overflow_policy::overrun_oldest);
  logger->set_formatter(std::make_unique<spdlog::pattern_formatter>(
      style == Style::kJson
          ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})"
          : "%Y-%m-%dT%H:%M:%S.%eZ level=%l %v",
      spdlog::pattern_time_type::utc));
  spdlog::set_default_logger(std::move(logger));
}

void Flush(absl::Duration limit) {
  if (output == nullptr) return;
  const int64_t flushes = output->sink->flushes();
  spdlog::default_logger()->flush();
  output->sink->WaitForFlush(flushes + 1, limit);
}

}  // namespace gemmd::log
