#include "service/engine/kernel_table.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/base/status.h"
#include "jit/plan/planner.h"

namespace gemmd::engine {
namespace {

// A plan is a few hundred bytes and cheap to make again, so the table is
// emptied when it is full instead of keeping an order of use on the hot path.
constexpr size_t kMaxPlans = 16384;

// A substitute may cost this many predicted cycles more than the kernel that
// it stands in for: about the half second of a compile.
constexpr double kMaxExcessCycles = 0.8e9;

KernelSource FromCache(jit::CubinSource source) {
  switch (source) {
    case jit::CubinSource::kMemory:
      return KernelSource::kMemory;
    case jit::CubinSource::kDisk:
      return KernelSource::kDisk;
    case jit::CubinSource::kCompiled:
      return KernelSource::kCompiled;
  }
  return KernelSource::kNone;
}

}  // namespace

KernelTable::Shape::Shape(const jit::Problem& problem)
    : m(problem.m), n(problem.n), k(problem.k), traits(0) {
  for (jit::DataType type :
       {problem.a_type, problem.b_type, problem.c_type, problem.d_type}) {
    traits = traits << 8 | static_cast<uint8_t>(type);
  }
  for (jit::Order order : {problem.a_order, problem.b_order, problem.d_order}) {
    traits = traits << 1 | static_cast<uint8_t>(order);
  }
  traits =
      traits << 2 | (problem.reads_ab() ? 2 : 0) | (problem.reads_c() ? 1 : 0);
}

std::shared_ptr<const Prepared> KernelTable::Find(const jit::Problem& problem) {
  const Shape shape(problem);
  {
    std::lock_guard lock(mutex_);
    const auto found = plans_.find(shape);
    if (found != plans_.end()) {
      ++hits_;
      return found->second;
    }
  }
  auto prepared = std::make_shared<Prepared>();
  prepared->plan = jit::ChoosePlan(problem, device_.description().properties);
  std::lock_guard lock(mutex_);
  prepared->kernel = FindLoaded(prepared->plan);
  if (prepared->kernel == nullptr) return nullptr;
  ++hits_;
  Remember(problem, prepared);
  return prepared;
}

std::shared_ptr<const Prepared> KernelTable::FindSubstitute(
    const jit::Problem& problem) {
  const jit::DeviceProperties& device = device_.description().properties;
  const jit::Plan ideal = jit::ChoosePlan(problem, device);
  if (ideal.config.split_k) return nullptr;
  double limit = ideal.predicted_cycles + kMaxExcessCycles;
  std::shared_ptr<Prepared> best;
  std::lock_guard lock(mutex_);
  for (const auto& kernel : kernels_) {
    std::optional<jit::Plan> plan =
        jit::PlanWith(problem, device, kernel->family, kernel->config);
    if (!plan || plan->predicted_cycles >= limit) continue;
    limit = plan->predicted_cycles;
    best = std::make_shared<Prepared>(Prepared{*std::move(plan), kernel});
  }
  if (best != nullptr) ++hits_;
  return best;
}

bool KernelTable::BeginPreparing(const jit::Problem& problem) {
  std::lock_guard lock(mutex_);
  return preparing_.insert(Shape(problem)).second;
}

void KernelTable::EndPreparing(const jit::Problem& problem) {
  std::lock_guard lock(mutex_);
  preparing_.erase(Shape(problem));
}

absl::StatusOr<Preparation> KernelTable::Prepare(const jit::Problem& problem,
                                                 absl::Time deadline) {
  const absl::Time start = absl::Now();
  Preparation result;
  result.source = KernelSource::kLoaded;
  result.prepared = Find(problem);
  if (result.prepared != nullptr) {
    result.plan_time = absl::Now() - start;
    return result;
  }
  auto prepared = std::make_shared<Prepared>();
  prepared->plan = jit::ChoosePlan(problem, device_.description().properties);
  const absl::Time planned = absl::Now();
  result.plan_time = planned - start;
  auto kernel = Load(prepared->plan, deadline, result.source);
  if (absl::IsFailedPrecondition(kernel.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat(kernel.status().message(), " (needed for ",
                     jit::DebugString(problem), ")"));
  }
  if (!kernel.ok()) return kernel.status();
  prepared->kernel = *std::move(kernel);
  result.compile_time = absl::Now() - planned;
  result.prepared = prepared;
  std::lock_guard lock(mutex_);
  Remember(problem, std::move(prepared));
  return result;
}

void KernelTable::Remember(const jit::Problem& problem,
                           std::shared_ptr<const Prepared> prepared) {
  if (plans_.size() >= kMaxPlans) plans_.clear();
  plans_[Shape(problem)] = std::move(prepared);
  if (new_shape_) new_shape_(problem);
}

std::shared_ptr<const LoadedKernel> KernelTable::FindLoaded(
    const jit::Plan& plan) const {
  for (const auto& kernel : kernels_) {
    if (kernel->family == plan.family && kernel->config == plan.config) {
      return kernel;
    }
  }
  return nullptr;
}

absl::StatusOr<std::shared_ptr<const LoadedKernel>> KernelTable::Load(
    const jit::Plan& plan, absl::Time deadline, KernelSource& source) {
  ASSIGN_OR_RETURN(const jit::Instance instance,
                   jit::MakeInstance(templates_, plan.family, plan.config));
  auto loaded = std::make_shared<LoadedKernel>();
  loaded->family = plan.family;
  loaded->config = plan.config;
  // A cubin that the device refuses is put aside and made anew, once: what
  // the cache held may have been damaged or made elsewhere.
  for (int attempt = 0; loaded->kernel == nullptr; ++attempt) {
    ASSIGN_OR_RETURN(const jit::CacheResult cached,
                     cache_.Get(instance, deadline));
    source = FromCache(cached.source);
    loaded->key = cached.kernel->key;
    loaded->name = cached.kernel->name;
    auto kernel = device_.Load(*cached.kernel, plan);
    if (kernel.ok()) {
      loaded->kernel = *std::move(kernel);
      break;
    }
    if (!absl::IsFailedPrecondition(kernel.status())) return kernel.status();
    cache_.Quarantine(cached.kernel->key);
    if (attempt == 1) return kernel.status();
  }

  std::lock_guard lock(mutex_);
  // Another thread may have loaded the same instance meanwhile: one is enough.
  if (auto other = FindLoaded(plan)) return other;
  kernels_.push_back(loaded);
  return loaded;
}

void KernelTable::Evict(const std::string& key) {
  std::lock_guard lock(mutex_);
  absl::erase_if(plans_, [&](const auto& entry) {
    return entry.second->kernel->key == key;
  });
  std::erase_if(kernels_,
                [&](const auto& kernel) { return kernel->key == key; });
}

std::vector<std::string> KernelTable::LoadedKeys() const {
  std::vector<std::string> keys;
  std::lock_guard lock(mutex_);
  for (const auto& kernel : kernels_) keys.push_back(kernel->key);
  return keys;
}

int64_t KernelTable::hits() const {
  std::lock_guard lock(mutex_);
  return hits_;
}

}  // namespace gemmd::engine
