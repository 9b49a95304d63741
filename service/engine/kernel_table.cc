#include "service/engine/kernel_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "jit/base/steady_time.h"
#include "jit/plan/launch_arithmetic.h"
#include "jit/plan/planner.h"
#include "jit/plan/tuned_plan.h"
#include "service/device/lost.h"

namespace gemmd::engine {
namespace {

// A plan is a few hundred bytes and cheap to make again, so the table is
// emptied when it is full instead of keeping an order of use on the hot path.
constexpr size_t kMaxPlans = 16384;

// How long a substitute serves before its shape's own kernel, which could not
// be had, is asked for again.
constexpr absl::Duration kAskAgain = absl::Minutes(1);

// One of so many finds of a kernel is told to the cache, which takes a lock.
constexpr int64_t kFindsPerNote = 16;

// Plans that are tried, in order of predicted time, before a request fails
// because its kernels are refused. What is refused for its registers is so
// together with its neighbours, which are predicted to be as fast.
constexpr int kMaxCandidates = 12;

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

// Of a family, and whether its kernels make one product or many.
std::string NameOf(const jit::Family& family, bool grouped) {
  return jit::KernelName(family, {.grouped = grouped});
}

// The family of the same problem with its operands exchanged.
jit::Family Exchanged(jit::Family family) {
  std::swap(family.x_major, family.y_major);
  std::swap(family.instruction.x, family.instruction.y);
  jit::TileEpilogue& epilogue = family.epilogue;
  epilogue.store = epilogue.store == jit::Store::kNormal
                       ? jit::Store::kTransposed
                       : jit::Store::kNormal;
  std::swap(epilogue.row_scale, epilogue.column_scale);
  if (epilogue.bias != jit::Side::kNone) {
    epilogue.bias = epilogue.bias == jit::Side::kRows ? jit::Side::kColumns
                                                      : jit::Side::kRows;
  }
  return family;
}

}  // namespace

std::shared_ptr<const Prepared> KernelTable::Find(const jit::Problem& problem,
                                                  int64_t uses) {
  const Shape shape(problem);
  std::lock_guard lock(mutex_);
  const auto found = plans_.find(shape);
  if (found == plans_.end()) return nullptr;
  Known& known = found->second;
  known.finds += uses;
  if (known.substitute && (known.generation != generation_ ||
                           jit::SteadyNow() >= known.ask_again)) {
    return nullptr;
  }
  hits_ += uses;
  Note(*known.slot, uses);
  return known.prepared;
}

bool KernelTable::Knows(const jit::Problem& problem) const {
  std::lock_guard lock(mutex_);
  return plans_.contains(Shape(problem));
}

void KernelTable::Note(Slot& slot, int64_t uses) {
  slot.last_use = ++uses_;
  // The cache's directory keeps what is used; the first use counts, and then
  // enough of them to be noticed.
  const int64_t noted = jit::DivideUp(slot.finds, kFindsPerNote);
  slot.finds += uses;
  if (jit::DivideUp(slot.finds, kFindsPerNote) != noted) {
    cache_.NoteUse(slot.kernel->key);
  }
}

absl::StatusOr<KernelTable::Choice> KernelTable::Choose(
    const jit::Problem& problem) {
  ASSIGN_OR_RETURN(Best chosen, BestPlan(problem));
  jit::Plan& best = chosen.plan;
  Choice choice;
  int64_t generation;
  {
    std::lock_guard lock(mutex_);
    if (Slot* slot = FindSlot(best)) {
      choice.prepared = Remember(problem, {std::move(best), slot->kernel},
                                 {.slot = slot, .tuned = chosen.tuned});
      return choice;
    }
    generation = generation_;
  }
  auto substitute = FindSubstitute(problem, best, kMaxExcessCycles);
  choice.wanted = std::move(best);
  if (!substitute) return choice;
  std::lock_guard lock(mutex_);
  const LoadedKernel& kernel = *substitute->kernel;
  if (Slot* slot = FindSlot(kernel.family, kernel.config)) {
    choice.prepared = Remember(problem, *std::move(substitute),
                               {.slot = slot,
                                .substitute = true,
                                .generation = generation,
                                .ask_again = jit::SteadyNow() + kAskAgain,
                                .tuned = chosen.tuned});
  }
  return choice;
}

absl::StatusOr<KernelTable::Best> KernelTable::BestPlan(
    const jit::Problem& problem) const {
  const device::Description& device = device_.description();
  std::optional<jit::TuningRecord> record;
  if (options_.tuning != nullptr) {
    record = options_.tuning->Find(problem, device.product);
  }
  std::optional<jit::Plan> best;
  if (record) best = jit::TunedPlan(*record, problem, device.properties);
  const bool forgotten = record && !best;
  if (!best) best = jit::UntunedPlan(problem, device.properties);
  const int splits = record ? record->splits : best->splits;
  const absl::Status refusal = refusals_.Of(*best);
  // What the record named is not made any more: as good as refused.
  if (refusal.ok() && !(forgotten && best->splits != splits)) {
    return Best{*std::move(best), record.has_value()};
  }
  for (jit::Plan& plan :
       jit::PlansInstead(problem, device.properties, splits, kMaxCandidates)) {
    if (!refusals_.Of(plan).ok()) continue;
    return Best{std::move(plan), record.has_value()};
  }
  if (refusal.ok()) return Best{*std::move(best), record.has_value()};
  return absl::Status(refusal.code(),
                      absl::StrCat(refusal.message(), " (needed for ",
                                   jit::DebugString(problem), ")"));
}

KernelTable::Kernels KernelTable::LoadedOf(const jit::Family& family,
                                           bool grouped) const {
  Kernels kernels;
  std::vector<jit::Family> families = {family};
  // Kernels with scales by block take A's by row.
  if (family.sum != jit::Summation::kBlockScaled) {
    families.push_back(Exchanged(family));
  }
  std::lock_guard lock(mutex_);
  for (const jit::Family& either : families) {
    const auto found = families_.find(NameOf(either, grouped));
    if (found == families_.end()) continue;
    for (const Slot* slot : found->second) kernels.push_back(slot->kernel);
  }
  return kernels;
}

std::optional<Prepared> KernelTable::FindSubstitute(
    const jit::Problem& problem, const jit::Plan& ideal,
    double excess_cycles) const {
  if (jit::SharesK(ideal.config)) return std::nullopt;
  double limit = ideal.predicted_cycles + excess_cycles;
  std::optional<Prepared> best;
  for (auto& kernel : LoadedOf(ideal.family, /*grouped=*/false)) {
    std::optional<jit::Plan> plan =
        jit::PlanWith(problem, device_.description().properties, kernel->family,
                      kernel->config);
    if (!plan || plan->predicted_cycles >= limit) continue;
    if (!forms_.Missing(*plan).empty()) continue;
    limit = plan->predicted_cycles;
    best = Prepared{*std::move(plan), std::move(kernel)};
  }
  return best;
}

std::shared_ptr<const Prepared> KernelTable::Remember(
    const jit::Problem& problem, Prepared prepared, Known known) {
  if (plans_.size() >= kMaxPlans) {
    plans_.clear();
    for (auto& [name, slot] : slots_) slot->shapes.clear();
  }
  known.slot->last_use = ++uses_;
  prepared.forms = &forms_;
  const Shape shape(problem);
  Known& entry = plans_[shape];
  prepared.use = entry.prepared == nullptr ? std::make_shared<ShapeUse>()
                                           : entry.prepared->use;
  known.prepared = std::make_shared<const Prepared>(std::move(prepared));
  if (entry.slot == nullptr && options_.new_shape) options_.new_shape(problem);
  if (entry.slot != nullptr) entry.slot->shapes.erase(shape);
  known.finds = entry.finds;
  known.cooled = entry.cooled;
  known.slot->shapes.insert(shape);
  entry = std::move(known);
  return entry.prepared;
}

absl::StatusOr<KernelTable::Loaded> KernelTable::Load(const jit::Plan& plan,
                                                      Reach reach,
                                                      absl::Time deadline) {
  ASSIGN_OR_RETURN(Loaded loaded, LoadAside(plan, reach, deadline));
  if (loaded.source != KernelSource::kLoaded) {
    loaded.kernel = Insert(std::move(loaded.kernel));
  }
  return loaded;
}

absl::StatusOr<KernelTable::Loaded> KernelTable::LoadAside(
    const jit::Plan& plan, Reach reach, absl::Time deadline) {
  RETURN_IF_ERROR(LoadForms(plan, reach, deadline));
  {
    std::lock_guard lock(mutex_);
    if (Slot* slot = FindSlot(plan.family, plan.config)) {
      return Loaded{slot->kernel, KernelSource::kLoaded};
    }
  }
  ASSIGN_OR_RETURN(const jit::Instance instance,
                   jit::MakeInstance(templates_, plan.family, plan.config));
  ASSIGN_OR_RETURN(OnDevice made, Obtain(instance, plan, reach, deadline));
  const jit::CompiledKernel& compiled = *made.cubin.kernel;
  return Loaded{std::make_shared<LoadedKernel>(
                    LoadedKernel{plan.family, plan.config, compiled.key,
                                 compiled.name, std::move(made.kernel)}),
                FromCache(made.cubin.source)};
}

absl::Status KernelTable::LoadForms(const jit::Plan& plan, Reach reach,
                                    absl::Time deadline) {
  for (const DerivedForm& form : forms_.Missing(plan)) {
    ASSIGN_OR_RETURN(
        const jit::Instance instance,
        jit::MakePrepareInstance(templates_, form.form, form.type));
    ASSIGN_OR_RETURN(OnDevice made,
                     Obtain(instance, jit::Plan(), reach, deadline));
    forms_.Add(form, std::move(made.kernel));
  }
  return absl::OkStatus();
}

absl::StatusOr<jit::CacheResult> KernelTable::FindCubin(
    const jit::Instance& instance, Reach reach, absl::Time deadline) {
  switch (reach) {
    case Reach::kCache:
      return cache_.Lookup(instance);
    case Reach::kCompiler:
      return cache_.Get(instance, deadline);
    case Reach::kOwnCompiler:
      return cache_.GetUnlessElsewhere(instance, deadline);
  }
  CHECK(false);
}

absl::StatusOr<KernelTable::OnDevice> KernelTable::Obtain(
    const jit::Instance& instance, const jit::Plan& plan, Reach reach,
    absl::Time deadline) {
  // A cubin that the device refuses is put aside and made anew, once: what
  // the cache held may have been damaged or made elsewhere.
  for (int attempt = 0;; ++attempt) {
    auto cubin = FindCubin(instance, reach, deadline);
    if (absl::IsInternal(cubin.status())) {
      return Refuse(instance.name, cubin.status());
    }
    if (!cubin.ok()) return cubin.status();
    auto kernel = device_.Load(*cubin->kernel, plan);
    if (kernel.ok()) return OnDevice{*std::move(kernel), *std::move(cubin)};
    if (device::IsLost(kernel.status()) && options_.health != nullptr) {
      options_.health->Fail(kernel.status().message());
    }
    if (!absl::IsFailedPrecondition(kernel.status())) return kernel.status();
    cache_.Quarantine(cubin->kernel->key);
    if (attempt == 1) return Refuse(instance.name, kernel.status());
  }
}

absl::Status KernelTable::Refuse(const std::string& kernel, absl::Status why) {
  if (options_.refused) options_.refused(kernel, why);
  refusals_.Add(kernel, why);
  std::lock_guard lock(mutex_);
  // What a substitute stands in for is another kernel from here on.
  ++generation_;
  return why;
}

std::shared_ptr<const LoadedKernel> KernelTable::Insert(
    std::shared_ptr<const LoadedKernel> kernel) {
  Kernels dropped;  // Unloaded after the lock.
  std::lock_guard lock(mutex_);
  // Another thread may have loaded the same instance meanwhile: one is enough.
  if (Slot* other = FindSlot(kernel->family, kernel->config)) {
    return other->kernel;
  }
  MakeRoom(dropped);
  auto slot = std::make_unique<Slot>();
  slot->kernel = kernel;
  slot->last_use = ++uses_;
  families_[NameOf(kernel->family, kernel->config.grouped)].push_back(
      slot.get());
  slots_[jit::KernelName(kernel->family, kernel->config)] = std::move(slot);
  ++generation_;
  return kernel;
}

void KernelTable::MakeRoom(Kernels& dropped) {
  while (static_cast<int>(slots_.size()) >= options_.max_kernels) {
    const auto oldest = std::ranges::min_element(
        slots_, std::less<>(),
        [](const auto& entry) { return entry.second->last_use; });
    Drop(oldest->first, dropped);
  }
}

void KernelTable::Drop(absl::string_view name, Kernels& dropped) {
  const auto found = slots_.find(name);
  Slot* const slot = found->second.get();
  for (const Shape& shape : slot->shapes) plans_.erase(shape);
  const LoadedKernel& kernel = *slot->kernel;
  const auto family =
      families_.find(NameOf(kernel.family, kernel.config.grouped));
  std::erase(family->second, slot);
  if (family->second.empty()) families_.erase(family);
  dropped.push_back(std::move(slot->kernel));
  slots_.erase(found);
  ++generation_;
}

KernelTable::Slot* KernelTable::FindSlot(const jit::Family& family,
                                         const jit::Config& config) const {
  const auto found = slots_.find(jit::KernelName(family, config));
  return found == slots_.end() ? nullptr : found->second.get();
}

KernelTable::Slot* KernelTable::FindSlot(const jit::Plan& plan) const {
  return forms_.Missing(plan).empty() ? FindSlot(plan.family, plan.config)
                                      : nullptr;
}

void KernelTable::Evict(const std::string& key) {
  Kernels dropped;  // Unloaded after the lock.
  std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, slot] : slots_) {
    if (slot->kernel->key == key) names.push_back(name);
  }
  for (const std::string& name : names) Drop(name, dropped);
}

void KernelTable::Replan(jit::Problem problem) {
  problem = jit::Folded(problem);
  std::lock_guard lock(mutex_);
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      problem.a_broadcast = a;
      problem.b_broadcast = b;
      const Shape shape(problem);
      const auto found = plans_.find(shape);
      if (found == plans_.end()) continue;
      found->second.slot->shapes.erase(shape);
      plans_.erase(found);
    }
  }
}

std::vector<std::string> KernelTable::LoadedKeys() const {
  std::vector<std::string> keys;
  std::lock_guard lock(mutex_);
  for (const auto& [name, slot] : slots_) keys.push_back(slot->kernel->key);
  return keys;
}

int64_t KernelTable::hits() const {
  std::lock_guard lock(mutex_);
  return hits_;
}

int64_t KernelTable::loaded() const {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(slots_.size());
}

size_t KernelTable::shapes() const {
  std::lock_guard lock(mutex_);
  return plans_.size();
}

}  // namespace gemmd::engine
