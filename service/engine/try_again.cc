#include "service/engine/try_again.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace gemmd::engine {
namespace {

// Of a payload: milliseconds.
constexpr char kAfter[] = "gemmd/try-again-after";

}  // namespace

absl::Status TryAgainError(absl::string_view message, absl::Duration after) {
  after = std::clamp(after, absl::Milliseconds(10), absl::Seconds(5));
  absl::Status error =
      absl::ResourceExhaustedError(absl::StrCat(message, ". Try again later."));
  error.SetPayload(kAfter,
                   absl::Cord(absl::StrCat(absl::ToInt64Milliseconds(after))));
  return error;
}

std::optional<absl::Duration> TryAgainAfter(const absl::Status& error) {
  const auto payload = error.GetPayload(kAfter);
  int64_t ms = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &ms)) {
    return std::nullopt;
  }
  return absl::Milliseconds(ms);
}

}  // namespace gemmd::engine
