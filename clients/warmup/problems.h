// The problems that a command is about: from files and presets.
#ifndef GEMMD_CLIENTS_WARMUP_PROBLEMS_H_
#define GEMMD_CLIENTS_WARMUP_PROBLEMS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/warmup/flags.h"
#include "jit/plan/planner.h"
#include "jit/problem/group_line.h"

namespace gemmd::warmup {

// What --help says of the files.
extern const char kProblemFiles[];

FlagSpec PresetFlag();
FlagSpec PresetTokensFlag();

// INVALID_ARGUMENT when neither a file nor a preset was given.
absl::Status CheckProblemsGiven(const Flags& flags);
// INVALID_ARGUMENT when what is said of presets is wrong: known before anybody
// is asked for a device.
absl::Status CheckPresets(const Flags& flags);

// The problems and groups of the operands and of --preset, which are planned
// for `devices`. A last line without its end that cannot be read, as a daemon
// that was killed leaves one, is left out and named on stderr. INVALID_ARGUMENT
// says where and what is wrong, or that nothing was given.
absl::StatusOr<jit::ProblemList> ReadProblems(
    const Flags& flags, const std::vector<jit::DeviceProperties>& devices);

// "12 problems and 3 groups", without what there is none of.
std::string CountText(const jit::ProblemList& list);

}  // namespace gemmd::warmup

#endif  // GEMMD_CLIENTS_WARMUP_PROBLEMS_H_
