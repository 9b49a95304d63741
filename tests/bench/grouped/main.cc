// grouped_bench FILE [CANDIDATES]: groups of products by one launch of ours,
// against cublasGemmGroupedBatchedEx and against our launches one by one, in
// one run; results compared bit by bit with those of single launches.
#include <cstdio>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "jit/base/status.h"
#include "jit/compile/compile_worker.h"
#include "jit/compile/nvrtc_compiler.h"
#include "jit/plan/group_plan.h"
#include "service/gpu/random_elements.h"
#include "service/gpu/status.h"
#include "tests/bench/grouped/cublas_peer.h"
#include "tests/bench/grouped/group_file.h"
#include "tests/bench/our_product.h"
#include "tests/bench/timer.h"

namespace gemmd::bench {
namespace {

struct Track {
  const gpu::CudaDevice& device;
  const std::shared_ptr<gpu::Stream>& stream;
  const jit::TemplateLibrary& templates;
  jit::KernelCache& cache;
  const Timer& timer;
};

// Device memory of one product; `ours` are lines as the daemon pads them. All
// have the same random bits: products are compared with each other alone.
struct Matrices {
  gpu::DeviceBuffer a, b, ours, alone, library;
};

absl::Status Fill(const Track& track, jit::DataType type,
                  const gpu::DeviceBuffer& buffer) {
  static std::vector<char> random;
  if (random.empty()) {
    random.resize(size_t{64} << 20);
    gpu::FillRandomly(type, absl::MakeSpan(random));
  }
  for (int64_t at = 0; at < buffer.bytes();
       at += static_cast<int64_t>(random.size())) {
    const auto bytes = std::min<size_t>(
        random.size(), static_cast<size_t>(buffer.bytes() - at));
    RETURN_IF_CUDA_ERROR(
        track.stream->driver(),
        cuMemcpyHtoDAsync(buffer.get() + static_cast<CUdeviceptr>(at),
                          random.data(), bytes, track.stream->get()));
  }
  return track.stream->Synchronize();
}

absl::StatusOr<Matrices> MakeMatrices(const Track& track,
                                      const jit::Problem& problem) {
  const auto allocate = [&](const jit::MatrixLayout& layout) {
    return track.device.memory().Allocate(track.stream, layout.device_bytes());
  };
  Matrices m;
  ASSIGN_OR_RETURN(m.a, allocate(problem.a()));
  ASSIGN_OR_RETURN(m.b, allocate(problem.b()));
  ASSIGN_OR_RETURN(m.ours, allocate(problem.d()));
  ASSIGN_OR_RETURN(m.alone, allocate(problem.d()));
  ASSIGN_OR_RETURN(m.library, allocate(problem.d()));
  RETURN_IF_ERROR(Fill(track, problem.a_type, m.a));
  RETURN_IF_ERROR(Fill(track, problem.b_type, m.b));
  return m;
}

absl::StatusOr<gpu::Module> Load(const Track& track, const jit::Family& family,
                                 const jit::Config& config) {
  ASSIGN_OR_RETURN(const jit::Instance instance,
                   jit::MakeInstance(track.templates, family, config));
  ASSIGN_OR_RETURN(
      const jit::CacheResult compiled,
      track.cache.Get(instance, absl::Now() + absl::Minutes(10)));
  return gpu::Module::Load(&track.device.context(), compiled.kernel->cubin,
                           jit::kKernelSymbol);
}

// Launches of products: one for all, or one for each.
struct Launches {
  std::string name;
  std::vector<gpu::Module> modules;
  gpu::PreparedGroup group;
  gpu::DeviceBuffer table;
  std::vector<gpu::PreparedLaunch> single;
  std::vector<gpu::DeviceBuffer> partials;
};

absl::StatusOr<gpu::PreparedLaunch> LaunchOf(
    const Track& track, const jit::Problem& problem, const jit::Plan& plan,
    const gpu::Module& module, const Matrices& m, CUdeviceptr d,
    Launches& launches) {
  ASSIGN_OR_RETURN(const gpu::KernelFunctions functions,
                   gpu::FunctionsOf(module, plan));
  CUdeviceptr partials = 0;
  if (plan.partials_bytes > 0) {
    ASSIGN_OR_RETURN(
        launches.partials.emplace_back(),
        track.device.memory().Allocate(track.stream, plan.partials_bytes));
    partials = launches.partials.back().get();
  }
  return gpu::PrepareLaunch(
      track.stream->driver(), problem, plan, functions,
      {.a = m.a.get(), .b = m.b.get(), .d = d, .partials = partials});
}

absl::StatusOr<Launches> Together(const Track& track, const NamedGroup& group,
                                  const jit::GroupPlan& plan,
                                  const std::vector<Matrices>& matrices) {
  Launches launches = {.name = jit::KernelName(plan.family, plan.config)};
  ASSIGN_OR_RETURN(gpu::Module module,
                   Load(track, plan.family, plan.config));
  launches.modules.push_back(std::move(module));
  const auto& properties = track.device.description().properties;
  const std::vector<jit::Plan> plans =
      jit::PlansOf(group.problems, properties, plan);
  std::vector<gpu::PreparedLaunch> single;
  for (size_t i = 0; i < plans.size(); ++i) {
    ASSIGN_OR_RETURN(
        single.emplace_back(),
        LaunchOf(track, group.problems[i], plans[i], launches.modules[0],
                 matrices[i], matrices[i].ours.get(), launches));
  }
  launches.group = gpu::Group(single);
  const std::vector<Arguments>& products = launches.group.products;
  const size_t bytes = products.size() * sizeof(Arguments);
  ASSIGN_OR_RETURN(launches.table,
                   track.device.memory().Allocate(
                       track.stream, static_cast<int64_t>(bytes)));
  RETURN_IF_CUDA_ERROR(track.stream->driver(),
                       cuMemcpyHtoDAsync(launches.table.get(), products.data(),
                                         bytes, track.stream->get()));
  RETURN_IF_ERROR(track.stream->Synchronize());
  return launches;
}

absl::StatusOr<Launches> OneByOne(const Track& track, const NamedGroup& group,
                                  const std::vector<Matrices>& matrices) {
  Launches launches = {.name = "one by one"};
  const auto& properties = track.device.description().properties;
  for (size_t i = 0; i < group.problems.size(); ++i) {
    const jit::Plan plan = jit::ChoosePlan(group.problems[i], properties);
    ASSIGN_OR_RETURN(gpu::Module module,
                     Load(track, plan.family, plan.config));
    launches.modules.push_back(std::move(module));
    ASSIGN_OR_RETURN(
        launches.single.emplace_back(),
        LaunchOf(track, group.problems[i], plan, launches.modules.back(),
                 matrices[i], matrices[i].alone.get(), launches));
  }
  return launches;
}

absl::Status Enqueue(const Track& track, const Launches& launches) {
  for (const gpu::PreparedLaunch& launch : launches.single) {
    RETURN_IF_ERROR(gpu::Enqueue(launch, *track.stream));
  }
  if (!launches.single.empty()) return absl::OkStatus();
  return gpu::EnqueueGroup(launches.group, launches.table.get(),
                           *track.stream);
}

absl::StatusOr<std::vector<char>> Read(const Track& track,
                                       const gpu::DeviceBuffer& buffer) {
  std::vector<char> bytes(static_cast<size_t>(buffer.bytes()));
  RETURN_IF_CUDA_ERROR(track.stream->driver(),
                       cuMemcpyDtoHAsync(bytes.data(), buffer.get(),
                                         bytes.size(), track.stream->get()));
  RETURN_IF_ERROR(track.stream->Synchronize());
  return bytes;
}

// Elements that differ from those of single launches with the same kernel but
// for its grouping, whose bits are known to be right.
absl::StatusOr<int64_t> WrongElements(const Track& track,
                                      const NamedGroup& group,
                                      const jit::GroupPlan& together,
                                      const std::vector<Matrices>& matrices) {
  jit::Config config = together.config;
  config.grouped = false;
  ASSIGN_OR_RETURN(const gpu::Module module,
                   Load(track, together.family, config));
  int64_t wrong = 0;
  Launches unused;
  for (size_t i = 0; i < group.problems.size(); ++i) {
    const jit::Problem& problem = group.problems[i];
    const auto plan =
        jit::PlanWith(problem, track.device.description().properties,
                      together.family, config);
    ASSIGN_OR_RETURN(
        const gpu::PreparedLaunch launch,
        LaunchOf(track, problem, *plan, module, matrices[i],
                 matrices[i].alone.get(), unused));
    RETURN_IF_ERROR(gpu::Enqueue(launch, *track.stream));
    ASSIGN_OR_RETURN(const auto ours, Read(track, matrices[i].ours));
    ASSIGN_OR_RETURN(const auto alone, Read(track, matrices[i].alone));
    const jit::MatrixLayout d = problem.d();
    for (int64_t line = 0; line < d.lines(); ++line) {
      const auto at = static_cast<size_t>(line * d.pitch_bytes());
      wrong += std::memcmp(&ours[at], &alone[at],
                           static_cast<size_t>(d.width_bytes())) != 0;
    }
  }
  return wrong;
}

absl::StatusOr<bool> Race(const Track& track, const NamedGroup& group,
                          int candidates) {
  std::vector<Matrices> matrices;
  std::vector<CublasGroup::Memory> memory;
  double flop = 0;
  for (const jit::Problem& problem : group.problems) {
    ASSIGN_OR_RETURN(matrices.emplace_back(), MakeMatrices(track, problem));
    const Matrices& m = matrices.back();
    memory.push_back({m.a.get(), m.b.get(), m.library.get()});
    flop += 2e-6 * static_cast<double>(problem.m * problem.n * problem.k);
  }
  std::vector<Launches> ours;
  const auto plans = jit::RankGroupPlans(
      group.problems, track.device.description().properties, candidates);
  for (const jit::GroupPlan& plan : plans) {
    ASSIGN_OR_RETURN(ours.emplace_back(),
                     Together(track, group, plan, matrices));
  }
  ASSIGN_OR_RETURN(ours.emplace_back(), OneByOne(track, group, matrices));
  auto library =
      CublasGroup::Create(track.device, track.stream, group.problems, memory);
  std::vector<Timer::Prepared> prepared;
  for (const Launches& launches : ours) {
    ASSIGN_OR_RETURN(
        prepared.emplace_back(),
        track.timer.Prepare(
            {launches.name, [&](int) { return Enqueue(track, launches); }}, 1));
  }
  if (library.ok()) {
    auto peer = track.timer.Prepare(
        {"cuBLAS", [&](int) { return (*library)->Enqueue(); }}, 1);
    if (peer.ok()) {
      prepared.push_back(*std::move(peer));
    } else {
      library = peer.status();
    }
  }
  std::vector<const Timer::Prepared*> contenders;
  for (const Timer::Prepared& contender : prepared) {
    contenders.push_back(&contender);
  }
  ASSIGN_OR_RETURN(const std::vector<double> us,
                   track.timer.Burst(contenders));
  const size_t best = static_cast<size_t>(
      std::min_element(us.begin(), us.begin() + std::ssize(plans)) -
      us.begin());
  int64_t wrong = 0;
  for (size_t i = 0; i < plans.size(); ++i) {
    RETURN_IF_ERROR(Enqueue(track, ours[i]));
    ASSIGN_OR_RETURN(const int64_t of_this,
                     WrongElements(track, group, plans[i], matrices));
    wrong += of_this;
  }
  const double peer = library.ok() ? us.back() : 0;
  absl::PrintF(
      "%-24s %4d ours %8.2f us (best of %d %8.2f, %5.0f TFLOP/s) alone %8.2f "
      "cuBLAS %8.2f ratio %.3f (%.3f) %s %s%s\n",
      group.name, group.problems.size(), us[0], plans.size(), us[best],
      flop / us[0], us[plans.size()], peer, peer / us[0], peer / us[best],
      ours[0].name, best == 0 ? "" : ours[best].name,
      wrong == 0 ? "" : absl::StrCat("  WRONG LINES: ", wrong));
  if (!library.ok()) {
    absl::PrintF("  %s\n", library.status().message());
  }
  std::fflush(stdout);
  return wrong == 0;
}

absl::StatusOr<bool> Run(const std::string& path, int candidates) {
  ASSIGN_OR_RETURN(const std::vector<NamedGroup> groups, ReadGroups(path));
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
  // All at once: no race waits for the compiler.
  std::vector<jit::Instance> instances;
  const auto add = [&](const jit::Family& family,
                       const jit::Config& config) -> absl::Status {
    ASSIGN_OR_RETURN(instances.emplace_back(),
                     jit::MakeInstance(templates, family, config));
    return absl::OkStatus();
  };
  const auto& properties = device->description().properties;
  for (const NamedGroup& group : groups) {
    for (jit::GroupPlan& plan :
         jit::RankGroupPlans(group.problems, properties, candidates)) {
      RETURN_IF_ERROR(add(plan.family, plan.config));
      plan.config.grouped = false;
      RETURN_IF_ERROR(add(plan.family, plan.config));
    }
    for (const jit::Problem& problem : group.problems) {
      const jit::Plan plan = jit::ChoosePlan(problem, properties);
      RETURN_IF_ERROR(add(plan.family, plan.config));
    }
  }
  for (const absl::Status& status : CompileAll(instances, *cache)) {
    RETURN_IF_ERROR(status);
  }
  bool right = true;
  for (const NamedGroup& group : groups) {
    ASSIGN_OR_RETURN(const bool is_right,
                     Race({*device, stream, templates, *cache, timer}, group,
                          candidates));
    right = right && is_right;
  }
  return right;
}

}  // namespace
}  // namespace gemmd::bench

int main(int argc, char** argv) {
  if (auto code = gemmd::jit::RunIfCompileWorker(argc, argv)) return *code;
  int candidates = 4;
  if (argc < 2 || argc > 3 ||
      (argc == 3 && !absl::SimpleAtoi(argv[2], &candidates))) {
    std::fprintf(stderr, "Usage: grouped_bench FILE [CANDIDATES]\n");
    return 2;
  }
  const auto right = gemmd::bench::Run(argv[1], candidates);
  if (!right.ok()) {
    std::fprintf(stderr, "grouped_bench: %s\n",
                 right.status().ToString().c_str());
    return 1;
  }
  return *right ? 0 : 1;
}
