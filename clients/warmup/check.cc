// gemm-warmup check: what a cache lacks for a list of problems.
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/warmup/command.h"
#include "clients/warmup/json.h"
#include "clients/warmup/missing.h"
#include "clients/warmup/problems.h"
#include "clients/warmup/target.h"
#include "jit/base/status.h"

namespace gemmd::warmup {
namespace {

absl::StatusOr<int> Run(const Flags& flags) {
  ASSIGN_OR_RETURN(const std::string directory, flags.Require("cache_dir"));
  ASSIGN_OR_RETURN(const Missing missing, FindMissing(flags, directory));
  const bool complete = missing.names.empty() && missing.damaged.empty();
  for (const std::string& fault : missing.damaged) {
    absl::FPrintF(stderr, "%s\n", fault);
  }
  if (flags.Has("json")) {
    Json all;
    all.Set("wanted", static_cast<int64_t>(missing.wanted));
    all.Set("missing", missing.names);
    all.Set("damaged", static_cast<int64_t>(missing.damaged.size()));
    all.Set("multiprocessors", missing.multiprocessors);
    all.Print();
    return complete ? kExitComplete : kExitIncomplete;
  }
  for (const std::string& name : missing.names) {
    absl::PrintF("missing: %s\n", name);
  }
  absl::PrintF(
      "%d kernels wanted, %d missing, for a GPU of %d multiprocessors; %d "
      "entries damaged\n",
      missing.wanted, missing.names.size(), missing.multiprocessors,
      missing.damaged.size());
  return complete ? kExitComplete : kExitIncomplete;
}

}  // namespace

Command CheckCommand() {
  Command command = {
      .name = "check",
      .operands = "[FILE]...",
      .summary = "Say what a cache lacks for a list of problems.",
      .details = absl::StrCat(
          kProblemFiles,
          "Compiles nothing and needs no compiler: for the start of a daemon "
          "that runs\nwith --require-complete. Exit code 1 when a kernel is "
          "missing.\n"),
      .flags = {CacheDirFlag(), PresetFlag(), PresetTokensFlag(), JsonFlag()},
      .run = Run};
  for (const FlagSpec& flag : TargetFlags()) command.flags.push_back(flag);
  return command;
}

}  // namespace gemmd::warmup
