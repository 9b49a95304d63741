// Times the kernel cache.
//
//   cache_bench NVRTC_FOLDER [REDIS_ADDRESS]  hits in each tier, and compiles
//   by
//                                             1, 2, 4, ... workers
//   cache_bench start NVRTC_FOLDER            a daemon's start to its answer
//   cache_bench large FOLDER                  20,000 entries, 4 GiB
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "jit/base/status.h"
#include "jit/cache/build_kernel.h"
#include "jit/cache/disk_store.h"
#include "jit/cache/memory_store.h"
#include "jit/cache/redis_tier.h"
#include "jit/compile/compile_worker.h"
#include "jit/compile/nvrtc_compiler.h"
#include "jit/plan/planner.h"
#include "jit/problem/problem_line.h"
#include "jit/source/template_library.h"
#include "tests/bench/cache/large.h"
#include "tests/bench/cache/start.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {
namespace {

constexpr int kRounds = 2000;

double MedianUs(const std::function<void()>& work) {
  std::vector<double> times_us;
  for (int i = 0; i < kRounds; ++i) {
    const absl::Time start = absl::Now();
    work();
    times_us.push_back(absl::ToDoubleMicroseconds(absl::Now() - start));
  }
  std::nth_element(times_us.begin(), times_us.begin() + kRounds / 2,
                   times_us.end());
  return times_us[kRounds / 2];
}

// Instances of different kernels, as many as a warm-up would have.
absl::StatusOr<std::vector<Instance>> SomeInstances() {
  const TemplateLibrary templates = TemplateLibrary::Embedded();
  std::map<std::string, Instance> by_name;
  for (const char* type : {"bf16", "f16"}) {
    for (const char* layout : {"TN", "NN", "NT", "TT"}) {
      for (const char* shape : {"8192 8192 8192", "1024 1024 1024",
                                "64 7168 4096", "4096 7168 2304"}) {
        ASSIGN_OR_RETURN(
            const Problem problem,
            ParseProblemLine(absl::StrFormat("%s %s %s", type, layout, shape)));
        const Plan plan = ChoosePlan(problem, {});
        ASSIGN_OR_RETURN(by_name[KernelName(plan.family, plan.config)],
                         MakeInstance(templates, plan.family, plan.config));
      }
    }
  }
  std::vector<Instance> instances;
  for (auto& [name, instance] : by_name) {
    instances.push_back(std::move(instance));
  }
  return instances;
}

absl::StatusOr<std::unique_ptr<Compiler>> Open(const std::string& nvrtc) {
  return CreateNvrtcCompiler(
      {.nvrtc_path = nvrtc, .worker_program = "/proc/self/exe"});
}

absl::Status TimeHits(const std::string& nvrtc, const std::string& redis,
                      const Instance& instance) {
  ASSIGN_OR_RETURN(std::unique_ptr<Compiler> owned, Open(nvrtc));
  Compiler& compiler = *owned;
  const TemporaryDirectory directory;
  const auto cache =
      KernelCache::Create({.directory = directory.path()}, std::move(owned));
  ASSIGN_OR_RETURN(const CacheResult result,
                   cache->Get(instance, absl::InfiniteFuture()));
  const CompiledKernel& kernel = *result.kernel;
  absl::PrintF("%s: source %d bytes, cubin %d bytes, compiled in %d ms\n",
               kernel.name, kernel.source.size(), kernel.cubin.size(),
               kernel.compile_ms);
  absl::PrintF("digest of a new source    %8.1f us\n",
               MedianUs([&] { Source{kernel.source}; }));
  absl::PrintF("key of an instance        %8.1f us\n",
               MedianUs([&] { KeyOf(compiler, instance); }));
  absl::PrintF("memory, by instance       %8.1f us\n", MedianUs([&] {
                 CHECK(cache->Get(instance, absl::InfiniteFuture()).ok());
               }));
  const auto complete = KernelCache::Create(
      {.directory = directory.path(), .require_complete = true}, nullptr);
  absl::PrintF("memory, no compiler       %8.1f us\n", MedianUs([&] {
                 CHECK(complete->Get(instance, absl::InfiniteFuture()).ok());
               }));
  absl::PrintF("memory, by key            %8.1f us\n",
               MedianUs([&] { CHECK(cache->Find(kernel.key).ok()); }));
  DiskStore disk({.directory = directory.path()});
  absl::PrintF("disk, verified            %8.1f us\n",
               MedianUs([&] { CHECK(disk.Load(kernel.key).ok()); }));
  if (redis.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      const auto shared,
      CreateRedisTier({.server = {.address = redis}, .signing_key = "key"}));
  RETURN_IF_ERROR(shared->Store(kernel));
  absl::PrintF("Redis, verified, signed   %8.1f us\n",
               MedianUs([&] { CHECK(shared->Load(kernel.key).ok()); }));
  return absl::OkStatus();
}

// Seconds that `jobs` workers take for all instances, workers started before.
absl::StatusOr<double> TimeCompiles(const std::string& nvrtc,
                                    const std::vector<Instance>& instances,
                                    int jobs) {
  ASSIGN_OR_RETURN(std::unique_ptr<Compiler> compiler, Open(nvrtc));
  compiler->identity();
  const auto cache =
      KernelCache::Create({.compile_jobs = jobs}, std::move(compiler));
  const absl::Time start = absl::Now();
  std::vector<std::thread> callers;
  for (const Instance& instance : instances) {
    callers.emplace_back(
        [&] { CHECK(cache->Get(instance, absl::InfiniteFuture()).ok()); });
  }
  for (std::thread& caller : callers) caller.join();
  return absl::ToDoubleSeconds(absl::Now() - start);
}

absl::Status Run(const std::string& nvrtc, const std::string& redis) {
  ASSIGN_OR_RETURN(const std::vector<Instance> instances, SomeInstances());
  RETURN_IF_ERROR(TimeHits(nvrtc, redis, instances[0]));
  double alone_s = 0;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  for (int jobs = 1; jobs <= cores; jobs *= 2) {
    ASSIGN_OR_RETURN(const double took_s, TimeCompiles(nvrtc, instances, jobs));
    if (jobs == 1) alone_s = took_s;
    absl::PrintF("%d kernels by %2d workers: %6.2f s, %.2f times as fast\n",
                 instances.size(), jobs, took_s, alone_s / took_s);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace gemmd::jit

int main(int argc, char** argv) {
  if (auto code = gemmd::jit::RunIfCompileWorker(argc, argv)) return *code;
  if (argc < 2) {
    std::fputs(
        "Usage: cache_bench NVRTC_FOLDER [REDIS_ADDRESS] | start NVRTC_FOLDER "
        "| large FOLDER\n",
        stderr);
    return 2;
  }
  const std::string first = argv[1], second = argc > 2 ? argv[2] : "";
  const absl::Status status =
      first == "large"   ? gemmd::jit::TimeLargeCache(second)
      : first == "start" ? gemmd::jit::TimeStarts(second)
                         : gemmd::jit::Run(first, second);
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "cache_bench: %s\n", status.message());
  return 1;
}
