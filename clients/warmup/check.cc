// gemm-warmup check: what a cache lacks for a list of problems.
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/warmup/command.h"
#include "clients/warmup/instances.h"
#include "clients/warmup/problems.h"
#include "clients/warmup/target.h"
#include "jit/base/status.h"
#include "jit/cache/disk_store.h"

namespace gemmd::warmup {
namespace {

absl::StatusOr<int> Run(const Flags& flags) {
  ASSIGN_OR_RETURN(const std::string directory, flags.Require("cache_dir"));
  ASSIGN_OR_RETURN(const jit::DeviceProperties device, Target(flags));
  ASSIGN_OR_RETURN(const std::vector<jit::Problem> problems,
                   ReadProblems(flags, {device}));
  ASSIGN_OR_RETURN(
      const std::vector<jit::Instance> wanted,
      InstancesOf(jit::TemplateLibrary::Embedded(), problems, device));
  jit::DiskStore store({.directory = directory, .read_only = true});
  // By their sources: a kernel of the same name that other templates made does
  // not count.
  std::set<std::string> there;
  int damaged = 0;
  for (const std::string& key : store.Keys()) {
    const absl::StatusOr<jit::CompiledKernel> kernel = store.Load(key);
    if (kernel.ok()) {
      there.insert(jit::Source(kernel->source).digest());
    } else {
      ++damaged;
    }
  }
  int missing = 0;
  for (const jit::Instance& instance : wanted) {
    if (there.contains(instance.source.digest())) continue;
    absl::PrintF("missing: %s\n", instance.name);
    ++missing;
  }
  absl::PrintF("%d kernels wanted, %d missing, %d entries damaged\n",
               wanted.size(), missing, damaged);
  return missing == 0 && damaged == 0 ? kExitComplete : kExitIncomplete;
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
      .flags = {CacheDirFlag(), PresetFlag()},
      .run = Run};
  for (const FlagSpec& flag : TargetFlags()) command.flags.push_back(flag);
  return command;
}

}  // namespace gemmd::warmup
