// gemm_bench: gemmd's kernels against cuBLASLt on one GPU, in one run.
#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "jit/base/status.h"
#include "jit/compile/compile_worker.h"
#include "jit/compile/nvrtc_compiler.h"
#include "jit/problem/problem_line.h"
#include "service/gpu/cuda_device.h"
#include "tests/bench/ceiling.h"
#include "tests/bench/entries.h"
#include "tests/bench/nvml.h"
#include "tests/bench/options.h"
#include "tests/bench/race.h"
#include "tests/bench/report.h"

namespace gemmd::bench {
namespace {

// What cuBLAS recommends for Hopper is 32 MiB; twice that leaves no excuse.
constexpr size_t kLibraryWorkspaceBytes = size_t{64} << 20;

absl::StatusOr<jit::TemplateLibrary> Templates(const Options& options) {
  if (options.template_directory.empty()) {
    return jit::TemplateLibrary::Embedded();
  }
  return jit::TemplateLibrary::FromDirectory(options.template_directory);
}

std::unique_ptr<jit::KernelCache> OpenCache(const Options& options) {
  absl::StatusOr<std::unique_ptr<jit::Compiler>> compiler =
      jit::CreateNvrtcCompiler(
          {.nvrtc_path = options.nvrtc, .worker_program = "/proc/self/exe"});
  if (!compiler.ok()) {
    // What is cached still runs.
    absl::FPrintF(stderr, "gemm_bench: %s\n", compiler.status().message());
    compiler = nullptr;
  }
  jit::KernelCache::Options cache;
  cache.directory = options.cache_directory;
  cache.warn = [](const std::string& text) {
    absl::FPrintF(stderr, "gemm_bench: %s\n", text);
  };
  return jit::KernelCache::Create(std::move(cache), *std::move(compiler));
}

bool AllRight(const RaceResult& result) {
  for (const OurResult& ours : result.ours) {
    if (ours.check.has_value() && !ours.check->ok()) return false;
  }
  return true;
}

struct Outcome {
  std::vector<RaceResult> results;
  std::vector<Failure> failures;
  bool right = true;  // As far as checked.
};

// Times every problem; prints as it goes.
Outcome RaceAll(const RaceTrack& track, const Options& options,
                const Entries& entries, const Environment& environment) {
  Outcome outcome;
  absl::PrintF("%s", TableHeader());
  for (size_t i = 0; i < options.problems.size(); ++i) {
    const jit::Problem& problem = options.problems[i];
    absl::StatusOr<RaceResult> result =
        entries[i].empty()
            ? absl::FailedPreconditionError("None of its kernels compiled")
            : Race(track, problem, entries[i]);
    if (!result.ok()) {
      absl::PrintF("%-30s FAILED: %s\n", KeyOf(problem),
                   result.status().ToString());
      outcome.failures.push_back({KeyOf(problem), result.status().ToString()});
    } else {
      outcome.right = outcome.right && AllRight(*result);
      absl::PrintF("%s", TableRows(*result, environment));
      outcome.results.push_back(*std::move(result));
    }
    std::fflush(stdout);
  }
  return outcome;
}

// The speed of the tensor cores for every input type of the problems.
absl::Status MeasureCeilings(const gpu::CudaDevice& device,
                             const std::shared_ptr<gpu::Stream>& stream,
                             const jit::TemplateLibrary& templates,
                             jit::KernelCache& cache, const Timer& timer,
                             const Options& options, Environment& environment) {
  for (const jit::Problem& problem : options.problems) {
    const jit::Instruction instruction = InstructionOf(problem.arithmetic());
    double& tflops = environment.ceiling_tflops[Name(instruction)];
    if (tflops > 0) continue;
    ASSIGN_OR_RETURN(tflops, MeasureCeiling(device, stream, templates, cache,
                                            instruction, timer));
    absl::PrintF("%s ceiling %.1f TFLOP/s\n", Name(instruction), tflops);
  }
  return absl::OkStatus();
}

absl::Status WriteJson(const std::string& path, const Outcome& outcome,
                       const Environment& environment) {
  std::ofstream file(path);
  file << Json(outcome.results, outcome.failures, environment);
  if (file.flush()) return absl::OkStatus();
  return absl::UnknownError(
      absl::StrCat("--json ", path, " cannot be written"));
}

// True when everything compiled, every problem was timed and every check held.
absl::StatusOr<bool> Run(const Options& options) {
  if (options.list) {
    for (const jit::Problem& problem : options.problems) {
      absl::PrintF("%s\n", jit::ProblemLine(problem));
    }
    return true;
  }
  const absl::Time begin = absl::Now();
  ASSIGN_OR_RETURN(const jit::TemplateLibrary templates, Templates(options));
  const std::unique_ptr<jit::KernelCache> cache = OpenCache(options);
  if (options.compile_only) {
    ASSIGN_OR_RETURN(const Entries entries,
                     Entries::Prepare(options, {}, templates, *cache));
    return entries.complete();
  }

  ASSIGN_OR_RETURN(const std::shared_ptr<const gpu::DriverTable> driver,
                   gpu::LoadDriver());
  ASSIGN_OR_RETURN(
      const std::unique_ptr<gpu::CudaDevice> device,
      gpu::CudaDevice::Open(driver, options.ordinal, gpu::Options{}));
  ASSIGN_OR_RETURN(
      const Entries entries,
      Entries::Prepare(options, device->description(), templates, *cache));
  RETURN_IF_ERROR(device->context().MakeCurrent());
  ASSIGN_OR_RETURN(const std::shared_ptr<gpu::Stream> stream,
                   gpu::Stream::Create(&device->context()));
  ASSIGN_OR_RETURN(const std::unique_ptr<DeviceCode> code,
                   DeviceCode::Load(&device->context(), templates, *cache));
  ASSIGN_OR_RETURN(
      const Timer timer,
      Timer::Create(*stream,
                    {.samples = options.samples,
                     .segment_ms = static_cast<double>(options.segment_ms),
                     .meter = EnergyMeter::Open(options.ordinal)}));
  std::unique_ptr<CublasLt> library;
  if (options.peer != "none") {
    ASSIGN_OR_RETURN(library, CublasLt::Open(options.peer));
  }
  ASSIGN_OR_RETURN(const gpu::DeviceBuffer workspace,
                   device->memory().Allocate(stream, kLibraryWorkspaceBytes));
  ASSIGN_OR_RETURN(const int l2_bytes, device->context().Attribute(
                                           CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));

  Environment environment = {
      .device = device->description(),
      .library = library == nullptr ? "" : library->version(),
      .template_digest = templates.Digest(),
      .date = absl::FormatTime(absl::RFC3339_sec, begin, absl::UTCTimeZone()),
      .clocks = DescribeClocks(options.ordinal)};
  absl::PrintF("%s, CUDA %s, %s, cuBLASLt %s\n", environment.device.product,
               environment.device.driver, environment.clocks,
               library == nullptr ? "absent" : environment.library);
  if (options.ceiling) {
    RETURN_IF_ERROR(MeasureCeilings(*device, stream, templates, *cache, timer,
                                    options, environment));
  }
  const Outcome outcome =
      RaceAll({.device = *device,
               .stream = stream,
               .code = *code,
               .cache = *cache,
               .timer = timer,
               .library = library.get(),
               .library_workspace = workspace.get(),
               .library_workspace_bytes = kLibraryWorkspaceBytes,
               .l2_bytes = l2_bytes,
               .heuristics = options.heuristics,
               .brief = options.brief,
               .check = options.check,
               .burst = options.burst,
               .sustained = options.sustained,
               .profile = options.profile},
              options, entries, environment);
  environment.elapsed_s = absl::ToDoubleSeconds(absl::Now() - begin);
  absl::PrintF("%s%.1f s in all\n", Summary(outcome.results),
               environment.elapsed_s);
  if (!options.json.empty()) {
    RETURN_IF_ERROR(WriteJson(options.json, outcome, environment));
  }
  return entries.complete() && outcome.right && outcome.failures.empty();
}

int Main(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--help") {
      std::fputs(kUsage, stdout);
      return 0;
    }
  }
  const absl::StatusOr<Options> options = ParseOptions(arguments);
  if (!options.ok()) {
    absl::FPrintF(stderr, "gemm_bench: %s\n\n%s", options.status().message(),
                  kUsage);
    return 2;
  }
  const absl::StatusOr<bool> right = Run(*options);
  if (!right.ok()) {
    absl::FPrintF(stderr, "gemm_bench: %s\n", right.status().ToString());
    return 1;
  }
  return *right ? 0 : 1;
}

}  // namespace
}  // namespace gemmd::bench

int main(int argc, char** argv) {
  if (auto code = gemmd::jit::RunIfCompileWorker(argc, argv)) return *code;
  return gemmd::bench::Main({argv + 1, argv + argc});
}
