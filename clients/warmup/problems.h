// The problems that a command is about: from files and presets.
#ifndef GEMMD_CLIENTS_WARMUP_PROBLEMS_H_
#define GEMMD_CLIENTS_WARMUP_PROBLEMS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "clients/warmup/flags.h"
#include "jit/problem/problem.h"

namespace gemmd::warmup {

// What --help says of the files.
extern const char kProblemFiles[];

FlagSpec PresetFlag();

// INVALID_ARGUMENT says where and what is wrong, or that nothing was given.
absl::StatusOr<std::vector<jit::Problem>> ReadProblems(const Flags& flags);

}  // namespace gemmd::warmup

#endif  // GEMMD_CLIENTS_WARMUP_PROBLEMS_H_
