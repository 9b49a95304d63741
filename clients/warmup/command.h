// The subcommands of gemm-warmup.
#ifndef GEMMD_CLIENTS_WARMUP_COMMAND_H_
#define GEMMD_CLIENTS_WARMUP_COMMAND_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/warmup/flags.h"

namespace gemmd::warmup {

// Exit codes. An error Status exits with kExitIncomplete, INVALID_ARGUMENT
// with kExitUsage.
inline constexpr int kExitComplete = 0;
inline constexpr int kExitIncomplete = 1;
inline constexpr int kExitUsage = 2;

struct Command {
  std::string name;
  std::string operands;  // As in "FILE...".
  std::string summary;   // One line.
  std::string details;   // For --help; may be empty.
  std::vector<FlagSpec> flags;
  absl::StatusOr<int> (*run)(const Flags& flags);
};

Command CompileCommand();
Command CheckCommand();
Command LoadCommand();
Command TuneCommand();
Command ListCommand();
Command ShowCommand();
Command StatsCommand();
Command VerifyCommand();
Command ExportCommand();
Command ImportCommand();
Command GcCommand();
Command DiffCommand();

// Flags that several commands have.
FlagSpec CacheDirFlag();
FlagSpec NewCacheDirFlag();  // Of a command that makes it.
FlagSpec NvrtcFlag();
FlagSpec JobsFlag();
// The limit of the directory that a command writes to. Where a directory is
// filled ahead, its daemon, whose own limit it is, has yet to start.
FlagSpec LimitFlag();
// Nothing: not given, 0: no limit.
absl::StatusOr<std::optional<int64_t>> LimitGiven(const Flags& flags);

}  // namespace gemmd::warmup

#endif  // GEMMD_CLIENTS_WARMUP_COMMAND_H_
