// What a cache directory lacks for a list of kernels.
#ifndef GEMMD_CLIENTS_WARMUP_MISSING_H_
#define GEMMD_CLIENTS_WARMUP_MISSING_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/warmup/flags.h"

namespace gemmd::warmup {

struct Missing {
  size_t wanted = 0;
  std::vector<std::string> names;    // Of kernels that are not there.
  std::vector<std::string> damaged;  // Entries of any kernel: key and fault.
  int multiprocessors = 0;           // Of the device.
};

// Of the kernels of the problems and presets of `flags`, on their device.
// Errors of the directory as those of ReadKeys (kernels.h).
absl::StatusOr<Missing> FindMissing(const Flags& flags,
                                    const std::string& directory);

}  // namespace gemmd::warmup

#endif  // GEMMD_CLIENTS_WARMUP_MISSING_H_
