// gemm-warmup verify: compiles again and compares bytes.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/warmup/command.h"
#include "clients/warmup/kernels.h"
#include "clients/warmup/missing.h"
#include "clients/warmup/problems.h"
#include "clients/warmup/progress.h"
#include "clients/warmup/target.h"
#include "jit/base/for_each.h"
#include "jit/base/status.h"
#include "jit/base/steady_time.h"
#include "jit/compile/nvrtc_compiler.h"

namespace gemmd::warmup {
namespace {

constexpr absl::Duration kCompileTimeout = absl::Minutes(2);

// OK when a new compile gives the same bytes.
absl::Status Verify(jit::Compiler& compiler,
                    const jit::CompiledKernel& kernel) {
  ASSIGN_OR_RETURN(const jit::CompileOutput output,
                   compiler.Compile({.name = kernel.name,
                                     .source = kernel.source,
                                     .options = kernel.options},
                                    jit::SteadyNow() + kCompileTimeout));
  if (output.cubin != kernel.cubin) {
    return absl::DataLossError(
        absl::StrCat("its cubin differs: ", kernel.cubin.size(),
                     " bytes in the cache, ", output.cubin.size(), " now"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Run(const Flags& flags) {
  ASSIGN_OR_RETURN(const std::string directory, flags.Require("cache_dir"));
  ASSIGN_OR_RETURN(
      const int64_t jobs,
      flags.GetInt("jobs", std::thread::hardware_concurrency(), 1));
  ASSIGN_OR_RETURN(const int64_t sample, flags.GetInt("sample", 0, 1));
  RETURN_IF_ERROR(CheckPresets(flags));
  ASSIGN_OR_RETURN(KernelList set, ListKernels(directory));
  Missing missing;
  const bool asked = CheckProblemsGiven(flags).ok();
  if (asked) {
    // What is damaged is named below.
    ASSIGN_OR_RETURN(missing, FindMissing(flags, directory));
  }
  ASSIGN_OR_RETURN(
      const std::unique_ptr<jit::Compiler> compiler,
      jit::CreateNvrtcCompiler({.nvrtc_path = flags.Get("nvrtc", ""),
                                .worker_program = "/proc/self/exe",
                                .memory = directory}));
  if (sample > 0 && static_cast<size_t>(sample) < set.kernels.size()) {
    std::shuffle(set.kernels.begin(), set.kernels.end(),
                 std::mt19937(std::random_device()()));
    set.kernels.resize(static_cast<size_t>(sample));
  }

  const jit::DiskStore store = OpenToRead(directory);
  Progress progress(stdout, static_cast<int>(set.kernels.size()));
  std::atomic<int> identical = 0, failed = 0, skipped = 0;
  std::atomic<int> damaged = set.damaged;
  jit::ForEach(jobs, static_cast<int64_t>(set.kernels.size()), [&](int64_t i) {
    const jit::EntrySummary& kernel = set.kernels[i];
    const absl::StatusOr<jit::CompiledKernel> whole = store.Peek(kernel.key);
    if (absl::IsNotFound(whole.status())) {  // Evicted meanwhile.
      progress.Step(kernel.name);
      return;
    }
    // Another compiler may well give other bytes.
    const bool own = kernel.compiler == compiler->identity();
    const absl::Status status = !whole.ok() ? whole.status()
                                : own       ? Verify(*compiler, *whole)
                                            : absl::OkStatus();
    if (!whole.ok()) {
      ++damaged;
    } else if (!own) {
      ++skipped;
    } else if (!status.ok()) {
      ++failed;
    } else {
      ++identical;
    }
    if (!status.ok()) {
      progress.Fault(absl::StrCat("failed: ", kernel.name, " (", kernel.key,
                                  "): ", status.message()));
    }
    progress.Step(kernel.name);
  });
  progress.Note(absl::StrFormat(
      "%d kernels compiled again: %d identical, %d not; %d damaged, %d skipped "
      "(made by another compiler)",
      identical + failed, identical.load(), failed.load(), damaged.load(),
      skipped.load()));
  for (const std::string& name : missing.names) {
    progress.Note("missing: " + name);
  }
  if (asked) {
    progress.Note(absl::StrFormat(
        "%d kernels wanted, %d missing, for a GPU of %d multiprocessors",
        missing.wanted, missing.names.size(), missing.multiprocessors));
  }
  return failed == 0 && damaged == 0 && missing.names.empty() ? kExitComplete
                                                              : kExitIncomplete;
}

}  // namespace

Command VerifyCommand() {
  Command command = {
      .name = "verify",
      .operands = "[FILE]...",
      .summary = "Compile kernels of a cache again and compare the bytes.",
      .details = absl::StrCat("With problems or a preset it also says what the "
                              "cache lacks for them.\n\n",
                              kProblemFiles),
      .flags = {CacheDirFlag(),
                NvrtcFlag(),
                JobsFlag(),
                PresetFlag(),
                PresetTokensFlag(),
                {"sample", "N",
                 "verify N kernels drawn at random; default: all"}},
      .run = Run};
  for (const FlagSpec& flag : TargetFlags()) command.flags.push_back(flag);
  return command;
}

}  // namespace gemmd::warmup
