// grouped_bench FILE [CANDIDATES [JSON]]: groups of products by one launch of
// ours, against cublasGemmGroupedBatchedEx and against our launches one by one,
// in one run. Writes every figure to JSON. Exit code 1 when a result is wrong.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "jit/base/status.h"
#include "jit/compile/compile_worker.h"
#include "jit/compile/nvrtc_compiler.h"
#include "jit/plan/group_plan.h"
#include "tests/bench/grouped/race.h"
#include "tests/bench/our_product.h"

namespace gemmd::bench {
namespace {

struct Options {
  std::string file;
  int candidates = 4;
  std::string json;
};

// All kernels at once, so that no race waits for the compiler.
absl::Status Compile(const std::vector<NamedGroup>& groups,
                     const jit::DeviceProperties& device, int candidates,
                     const jit::TemplateLibrary& templates,
                     jit::KernelCache& cache) {
  std::vector<jit::Instance> instances;
  const auto add = [&](const jit::Family& family,
                       const jit::Config& config) -> absl::Status {
    ASSIGN_OR_RETURN(instances.emplace_back(),
                     jit::MakeInstance(templates, family, config));
    return absl::OkStatus();
  };
  for (const NamedGroup& group : groups) {
    for (jit::GroupPlan& plan :
         jit::RankGroupPlans(group.problems, device, candidates)) {
      RETURN_IF_ERROR(add(plan.family, plan.config));
      plan.config.grouped = false;
      RETURN_IF_ERROR(add(plan.family, plan.config));
    }
    for (const jit::Problem& problem : group.problems) {
      const jit::Plan plan = jit::ChoosePlan(problem, device);
      RETURN_IF_ERROR(add(plan.family, plan.config));
    }
  }
  for (const absl::Status& status : CompileAll(instances, cache)) {
    RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

std::string Json(const NamedGroup& group, const GroupResult& result) {
  return absl::StrFormat(
      "\"%s\": {\"products\": %d, \"us\": %.2f, \"best_us\": %.2f, "
      "\"alone_us\": %.2f, \"cublas_us\": %.2f, \"tflops\": %.1f, "
      "\"kernel\": \"%s\", \"best_kernel\": \"%s\", \"wrong_lines\": %d}",
      group.name, group.problems.size(), result.us, result.best_us,
      result.alone_us, result.cublas_us, result.tflops, result.kernel,
      result.best_kernel, result.wrong_lines);
}

absl::StatusOr<bool> Run(const Options& options) {
  ASSIGN_OR_RETURN(const std::vector<NamedGroup> groups,
                   ReadGroups(options.file));
  const jit::TemplateLibrary templates = jit::TemplateLibrary::Embedded();
  ASSIGN_OR_RETURN(
      std::unique_ptr<jit::Compiler> compiler,
      jit::CreateNvrtcCompiler({.worker_program = "/proc/self/exe"}));
  const auto cache = jit::KernelCache::Create({}, std::move(compiler));
  ASSIGN_OR_RETURN(const auto driver, gpu::LoadDriver());
  ASSIGN_OR_RETURN(const auto device,
                   gpu::CudaDevice::Open(driver, 0, gpu::Options{}));
  RETURN_IF_ERROR(device->context().MakeCurrent());
  ASSIGN_OR_RETURN(const std::shared_ptr<gpu::Stream> stream,
                   gpu::Stream::Create(&device->context()));
  ASSIGN_OR_RETURN(const Timer timer, Timer::Create(*stream, {}));
  RETURN_IF_ERROR(Compile(groups, device->description().properties,
                          options.candidates, templates, *cache));
  std::vector<std::string> rows;
  double sum = 0, worst = 1e9;
  int64_t wrong = 0;
  int compared = 0;
  for (const NamedGroup& group : groups) {
    ASSIGN_OR_RETURN(const GroupResult result,
                     RaceGroup({*device, stream, templates, *cache, timer,
                                options.candidates},
                               group));
    const double ratio = result.cublas_us / result.us;
    absl::PrintF(
        "%-32s %3d products %8.2f us %4.0f TFLOP/s, best of %d %8.2f, one by "
        "one %8.2f, cuBLAS %8.2f, ratio %.3f, %s%s\n",
        group.name, group.problems.size(), result.us, result.tflops,
        options.candidates, result.best_us, result.alone_us, result.cublas_us,
        ratio, result.kernel,
        result.wrong_lines == 0
            ? ""
            : absl::StrCat("  WRONG LINES: ", result.wrong_lines));
    std::fflush(stdout);
    wrong += result.wrong_lines;
    rows.push_back(Json(group, result));
    if (ratio == 0) continue;
    ++compared;
    sum += std::log(ratio);
    worst = std::min(worst, ratio);
  }
  absl::PrintF("geometric mean %.3f, worst %.3f of %d groups; %d wrong lines\n",
               std::exp(sum / std::max(compared, 1)), worst, compared, wrong);
  if (!options.json.empty()) {
    std::ofstream(options.json)
        << "{\"device\": \"" << device->description().product
        << "\",\n\"groups\": {\n"
        << absl::StrJoin(rows, ",\n") << "\n}}\n";
  }
  return wrong == 0;
}

}  // namespace
}  // namespace gemmd::bench

int main(int argc, char** argv) {
  if (auto code = gemmd::jit::RunIfCompileWorker(argc, argv)) return *code;
  gemmd::bench::Options options;
  if (argc > 1) options.file = argv[1];
  if (argc > 3) options.json = argv[3];
  if (argc < 2 || argc > 4 ||
      (argc > 2 && !absl::SimpleAtoi(argv[2], &options.candidates))) {
    std::fprintf(stderr, "Usage: grouped_bench FILE [CANDIDATES [JSON]]\n");
    return 2;
  }
  const auto right = gemmd::bench::Run(options);
  if (!right.ok()) {
    std::fprintf(stderr, "grouped_bench: %s\n",
                 right.status().ToString().c_str());
    return 1;
  }
  return *right ? 0 : 1;
}
