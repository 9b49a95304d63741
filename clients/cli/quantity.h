// Sizes and durations as people write them. Pure functions.
#ifndef GEMMD_CLIENTS_CLI_QUANTITY_H_
#define GEMMD_CLIENTS_CLI_QUANTITY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace gemmd::cli {

// "4GiB", "64kb" (1000 bytes each) or a number of bytes. INVALID_ARGUMENT for
// anything else; the message is what is allowed.
absl::StatusOr<int64_t> ParseBytes(const std::string& text);
// The shortest exact spelling: "1GiB", "2147483647".
std::string FormatBytes(int64_t bytes);

// "30s", "500ms", "1h30m", or a number of `bare`. INVALID_ARGUMENT for
// anything else, and for less than nothing; the message is what is allowed.
absl::StatusOr<absl::Duration> ParseDuration(const std::string& text,
                                             absl::Duration bare);

}  // namespace gemmd::cli

#endif  // GEMMD_CLIENTS_CLI_QUANTITY_H_
