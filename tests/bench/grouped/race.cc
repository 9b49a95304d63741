#include "tests/bench/grouped/race.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "jit/base/status.h"
#include "jit/plan/group_plan.h"
#include "service/gpu/launch.h"
#include "service/gpu/random_elements.h"
#include "service/gpu/status.h"
#include "service/gpu/workspace.h"
#include "tests/bench/grouped/cublas_peer.h"

namespace gemmd::bench {
namespace {

// Device memory of one product; `ours` are lines as the daemon pads them. All
// have the same random bits: products are compared with each other alone.
struct Matrices {
  gpu::DeviceBuffer a, b, ours, alone, library;
};

absl::Status Fill(const GroupTrack& track, jit::DataType type,
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

absl::StatusOr<Matrices> MakeMatrices(const GroupTrack& track,
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

absl::StatusOr<gpu::Module> Load(const GroupTrack& track,
                                 const jit::Family& family,
                                 const jit::Config& config) {
  ASSIGN_OR_RETURN(const jit::Instance instance,
                   jit::MakeInstance(track.templates, family, config));
  ASSIGN_OR_RETURN(const jit::CacheResult compiled,
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
  std::vector<gpu::Workspace> workspaces;
};

absl::StatusOr<gpu::PreparedLaunch> LaunchOf(const GroupTrack& track,
                                             const jit::Problem& problem,
                                             const jit::Plan& plan,
                                             const gpu::Module& module,
                                             const Matrices& m, CUdeviceptr d,
                                             Launches& launches) {
  ASSIGN_OR_RETURN(const gpu::KernelFunctions functions,
                   gpu::FunctionsOf(module, plan));
  gpu::LaunchMemory memory = {.a = m.a.get(), .b = m.b.get(), .d = d};
  gpu::Workspace& workspace = launches.workspaces.emplace_back();
  RETURN_IF_ERROR(workspace.Reserve(plan, track.device.memory(), track.stream));
  workspace.AddTo(memory);
  return gpu::PrepareLaunch(track.stream->driver(), problem, plan, functions,
                            memory);
}

absl::StatusOr<Launches> Together(const GroupTrack& track,
                                  const NamedGroup& group,
                                  const jit::GroupPlan& plan,
                                  const std::vector<Matrices>& matrices) {
  Launches launches = {.name = jit::KernelName(plan.family, plan.config)};
  ASSIGN_OR_RETURN(gpu::Module module, Load(track, plan.family, plan.config));
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
                   track.device.memory().Allocate(track.stream,
                                                  static_cast<int64_t>(bytes)));
  RETURN_IF_CUDA_ERROR(track.stream->driver(),
                       cuMemcpyHtoDAsync(launches.table.get(), products.data(),
                                         bytes, track.stream->get()));
  RETURN_IF_ERROR(track.stream->Synchronize());
  return launches;
}

absl::StatusOr<Launches> OneByOne(const GroupTrack& track,
                                  const NamedGroup& group,
                                  const std::vector<Matrices>& matrices) {
  Launches launches = {.name = "one by one"};
  const auto& properties = track.device.description().properties;
  for (size_t i = 0; i < group.problems.size(); ++i) {
    const jit::Plan plan = jit::ChoosePlan(group.problems[i], properties);
    ASSIGN_OR_RETURN(gpu::Module module, Load(track, plan.family, plan.config));
    launches.modules.push_back(std::move(module));
    ASSIGN_OR_RETURN(
        launches.single.emplace_back(),
        LaunchOf(track, group.problems[i], plan, launches.modules.back(),
                 matrices[i], matrices[i].alone.get(), launches));
  }
  return launches;
}

absl::Status Enqueue(const GroupTrack& track, const Launches& launches) {
  for (const gpu::PreparedLaunch& launch : launches.single) {
    RETURN_IF_ERROR(gpu::Enqueue(launch, *track.stream));
  }
  if (!launches.single.empty()) return absl::OkStatus();
  return gpu::EnqueueGroup(launches.group, launches.table.get(), *track.stream);
}

absl::StatusOr<std::vector<char>> Read(const GroupTrack& track,
                                       const gpu::DeviceBuffer& buffer) {
  std::vector<char> bytes(static_cast<size_t>(buffer.bytes()));
  RETURN_IF_CUDA_ERROR(track.stream->driver(),
                       cuMemcpyDtoHAsync(bytes.data(), buffer.get(),
                                         bytes.size(), track.stream->get()));
  RETURN_IF_ERROR(track.stream->Synchronize());
  return bytes;
}

absl::StatusOr<int64_t> WrongLines(const GroupTrack& track,
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
    ASSIGN_OR_RETURN(const gpu::PreparedLaunch launch,
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

}  // namespace

absl::StatusOr<GroupResult> RaceGroup(const GroupTrack& track,
                                      const NamedGroup& group) {
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
      group.problems, track.device.description().properties, track.candidates);
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
  ASSIGN_OR_RETURN(const std::vector<double> us, track.timer.Burst(contenders));
  const size_t best = static_cast<size_t>(
      std::min_element(us.begin(), us.begin() + std::ssize(plans)) -
      us.begin());
  int64_t wrong = 0;
  for (size_t i = 0; i < plans.size(); ++i) {
    RETURN_IF_ERROR(Enqueue(track, ours[i]));
    ASSIGN_OR_RETURN(const int64_t of_this,
                     WrongLines(track, group, plans[i], matrices));
    wrong += of_this;
  }
  return GroupResult{.kernel = ours[0].name,
                     .us = us[0],
                     .best_kernel = ours[best].name,
                     .best_us = us[best],
                     .alone_us = us[plans.size()],
                     .cublas_us = library.ok() ? us.back() : 0,
                     .tflops = flop / us[0],
                     .wrong_lines = wrong};
}

}  // namespace gemmd::bench
