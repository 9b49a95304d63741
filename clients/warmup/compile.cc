// gemm-warmup compile: the kernels of a list of problems, into a directory.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/warmup/command.h"
#include "clients/warmup/instances.h"
#include "clients/warmup/problems.h"
#include "clients/warmup/progress.h"
#include "clients/warmup/target.h"
#include "clients/warmup/written.h"
#include "jit/base/for_each.h"
#include "jit/base/status.h"
#include "jit/base/steady_time.h"
#include "jit/cache/kernel_cache.h"
#include "jit/compile/nvrtc_compiler.h"
#include "jit/source/template_library.h"

namespace gemmd::warmup {
namespace {

std::string Describe(const jit::CacheResult& result) {
  const jit::CompiledKernel& kernel = *result.kernel;
  if (result.source != jit::CubinSource::kCompiled) {
    return absl::StrCat(kernel.name, ": there already");
  }
  return absl::StrCat(kernel.name, ": compiled in ", kernel.compile_ms, " ms, ",
                      kernel.registers, " registers, ", kernel.cubin.size(),
                      " bytes");
}

// Gets every instance, `jobs` at a time. The number of those that failed.
int GetAll(jit::KernelCache& cache, const std::vector<jit::Instance>& instances,
           int64_t jobs, Progress& progress, Written& written) {
  std::atomic<int> failed = 0;
  jit::ForEach(jobs, static_cast<int64_t>(instances.size()), [&](int64_t i) {
    const absl::StatusOr<jit::CacheResult> result =
        cache.Get(instances[i], absl::InfiniteFuture());
    if (result.ok()) {
      written.Add(*result->kernel);
      progress.Step(Describe(*result));
    } else {
      ++failed;
      progress.Fault(absl::StrCat("failed: ", result.status().message()));
      progress.Step(instances[i].name);
    }
  });
  return failed;
}

absl::StatusOr<int> Run(const Flags& flags) {
  ASSIGN_OR_RETURN(const std::string directory, flags.Require("cache_dir"));
  ASSIGN_OR_RETURN(
      const int64_t jobs,
      flags.GetInt("jobs", std::thread::hardware_concurrency(), 1));
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit, LimitGiven(flags));
  ASSIGN_OR_RETURN(const jit::DeviceProperties device, Target(flags));
  ASSIGN_OR_RETURN(const jit::ProblemList problems,
                   ReadProblems(flags, {device}));
  const jit::TemplateLibrary embedded = jit::TemplateLibrary::Embedded();
  ASSIGN_OR_RETURN(const std::vector<jit::Instance> instances,
                   InstancesOf(embedded, problems, device));
  ASSIGN_OR_RETURN(
      std::unique_ptr<jit::Compiler> compiler,
      jit::CreateNvrtcCompiler({.nvrtc_path = flags.Get("nvrtc", ""),
                                .worker_program = "/proc/self/exe",
                                .memory = directory}));

  const absl::Time start = jit::SteadyNow();
  Progress progress(stdout, static_cast<int>(instances.size()));
  std::unique_ptr<jit::KernelCache> cache = jit::KernelCache::Create(
      {.directory = directory,
       .directory_limit_bytes = limit,
       .compile_jobs = static_cast<int>(std::min<int64_t>(jobs, 1024)),
       .warn = [&progress](const std::string& text) { progress.Fault(text); }},
      std::move(compiler));
  Written written(directory);
  const int failed = GetAll(*cache, instances, jobs, progress, written);
  cache->Flush();
  const jit::CacheStatistics statistics = cache->statistics();
  progress.Note(absl::StrFormat(
      "%s, %d kernels for a GPU of %d multiprocessors: %d compiled, "
      "%d there already, %d failed, %d not written, in %.1f s",
      CountText(problems), instances.size(), device.multiprocessors,
      statistics.compiles - statistics.compile_errors, statistics.disk_hits,
      failed, statistics.write_errors,
      absl::ToDoubleSeconds(jit::SteadyNow() - start)));
  if (statistics.write_errors > 0) return kExitIncomplete;
  // A limit that was given takes its kernels away behind what is found there.
  cache.reset();
  RETURN_IF_ERROR(written.CheckKept());
  return failed == 0 ? kExitComplete : kExitIncomplete;
}

}  // namespace

Command CompileCommand() {
  Command command = {
      .name = "compile",
      .operands = "[FILE]...",
      .summary = "Compile the kernels of a list of problems.",
      .details = absl::StrCat(
          kProblemFiles, "What is compiled already is not compiled again.\n"),
      .flags = {NewCacheDirFlag(), LimitFlag(), NvrtcFlag(), PresetFlag(),
                PresetTokensFlag(), JobsFlag()},
      .run = Run};
  for (const FlagSpec& flag : TargetFlags()) command.flags.push_back(flag);
  return command;
}

}  // namespace gemmd::warmup
