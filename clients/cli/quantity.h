// Sizes, durations and numbers as people write them. Pure functions.
#ifndef GEMMD_CLIENTS_CLI_QUANTITY_H_
#define GEMMD_CLIENTS_CLI_QUANTITY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace gemmd::cli {

// "4GiB", "64kb" (1000 bytes each) or a number of bytes. INVALID_ARGUMENT for
// anything else; the message is what is allowed.
absl::StatusOr<int64_t> ParseBytes(const std::string& text);
// The shortest exact spelling: "1GiB", "2147483647".
std::string FormatBytes(int64_t bytes);

// "30s", "500ms", "1h30m", 0, or a number of `bare`, where there is one.
// INVALID_ARGUMENT for anything else, and for less than nothing; the message is
// what is allowed.
absl::StatusOr<absl::Duration> ParseDuration(
    const std::string& text, std::optional<absl::Duration> bare);

// A number, rounded to f32; infinity is "inf" or "infinity". INVALID_ARGUMENT
// for what is no number, OUT_OF_RANGE for one that f32 does not hold; the
// message is what is allowed.
absl::StatusOr<float> ParseF32(const std::string& text);

}  // namespace gemmd::cli

#endif  // GEMMD_CLIENTS_CLI_QUANTITY_H_
