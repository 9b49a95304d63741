#include "clients/cli/quantity.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <limits>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace gemmd::cli {

absl::StatusOr<int64_t> ParseBytes(const std::string& text) {
  static const auto* const with_unit = new CLI::AsSizeValue(true);
  const absl::Status wrong = absl::InvalidArgumentError(
      "a number of bytes, or one with a unit such as 64KiB, 4GiB, 2GB");
  std::string bytes = text;
  uint64_t value = 0;
  try {
    if (!(*with_unit)(bytes).empty()) return wrong;
  } catch (const CLI::Error&) {
    return wrong;
  }
  if (text.empty() || !absl::ascii_isdigit(text[0]) ||
      !absl::SimpleAtoi(bytes, &value) ||
      value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return wrong;
  }
  return static_cast<int64_t>(value);
}

std::string FormatBytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return absl::StrCat(bytes, kUnits[unit]);
}

absl::StatusOr<absl::Duration> ParseDuration(
    const std::string& text, std::optional<absl::Duration> bare) {
  absl::Duration duration;
  double number = 0;
  if (bare.has_value() && absl::SimpleAtod(text, &number)) {
    duration = number * *bare;
  } else if (!absl::ParseDuration(text, &duration)) {
    duration = -absl::InfiniteDuration();
  }
  // Written so that NaN, which no comparison holds for, is refused.
  if (duration >= absl::ZeroDuration() && duration < absl::InfiniteDuration()) {
    return duration;
  }
  if (!bare.has_value()) {
    return absl::InvalidArgumentError(
        "a time with its unit, such as 500ms, 30s, 1h30m");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a time such as 500ms, 30s, 1h30m; a bare number counts ",
                   absl::FormatDuration(*bare)));
}

absl::StatusOr<float> ParseF32(const std::string& text) {
  float number = 0;
  if (!absl::SimpleAtof(text, &number)) {
    return absl::InvalidArgumentError("a number");
  }
  // Of those with digits it makes infinity where they are too large.
  if (std::isinf(number) && absl::c_any_of(text, absl::ascii_isdigit)) {
    return absl::OutOfRangeError("a number that f32 holds");
  }
  return number;
}

}  // namespace gemmd::cli
