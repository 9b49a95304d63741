#include "service/engine/tuning_job.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/base/status.h"
#include "jit/base/steady_time.h"
#include "jit/plan/tuned_plan.h"
#include "service/engine/contest.h"

namespace gemmd::engine {
namespace {

// As for requests: a compile serves those who come later too.
constexpr absl::Duration kCompileTimeout = absl::Minutes(10);
// How late it may be noticed that nobody waits for the job any more.
constexpr absl::Duration kCheckInterval = absl::Milliseconds(50);
// Refused kernels of the present plan before the job gives up.
constexpr int kMaxRefusals = 4;
// Samples of one job that requests may disturb.
constexpr int kMaxDisturbed = 400;

// Kernels that are being loaded by several threads.
class Batch {
 public:
  using Result = absl::StatusOr<KernelTable::Loaded>;

  explicit Batch(size_t size)
      : results_(size, absl::UnavailableError("the daemon is shutting down")),
        left_(size) {}

  // One for each, held by whoever loads it: it may be dropped without a try.
  static std::shared_ptr<void> Part(const std::shared_ptr<Batch>& batch) {
    return {nullptr, [batch](void*) { batch->End(); }};
  }
  void Set(size_t i, Result result) {
    std::lock_guard lock(mutex_);
    results_[i] = std::move(result);
  }
  bool WaitFor(absl::Duration time) {
    std::unique_lock lock(mutex_);
    return ended_.wait_for(lock, absl::ToChronoNanoseconds(time),
                           [this] { return left_ == 0; });
  }
  std::vector<Result> Take() {
    std::lock_guard lock(mutex_);
    return std::move(results_);
  }

 private:
  void End() {
    std::lock_guard lock(mutex_);
    if (--left_ == 0) ended_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<Result> results_ ABSL_GUARDED_BY(mutex_);
  size_t left_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

struct TuningJob::Field {
  std::vector<Kernel> kernels;
  std::vector<device::Contender> contenders;
  QuotaHold memory;
  // Last: it uses the kernels, and memory in the quota.
  std::unique_ptr<device::Timing> timing;
};

absl::Status TuningJob::Check() const {
  const device::Description& device = place_.served.device->description();
  if (!device.times_kernels) {
    return absl::UnimplementedError(absl::StrCat(
        "device ", device.name, " is no GPU: there is nothing to tune for it"));
  }
  if (!order_.problem.reads_ab() || !order_.problem.writes()) {
    return absl::InvalidArgumentError(
        absl::StrCat(jit::DebugString(order_.problem),
                     " multiplies nothing: there is nothing to tune"));
  }
  if (place_.stopping) {
    return absl::UnavailableError("the daemon is shutting down");
  }
  RETURN_IF_ERROR(context_.Check("tuning"));
  return place_.served.health.Check();
}

std::vector<jit::Plan> TuningJob::PlansToTime(
    const jit::Plan& incumbent) const {
  const jit::DeviceProperties& device =
      place_.served.device->description().properties;
  std::vector<jit::Plan> plans = {incumbent};
  for (jit::Plan& plan :
       order_.new_generation
           ? jit::RankPlans(order_.problem, device, order_.candidates)
           : jit::RankPlansOfSplits(order_.problem, device, incumbent.splits,
                                    order_.candidates)) {
    if (static_cast<int>(plans.size()) == order_.candidates) break;
    if (!jit::SameLaunch(plan, incumbent)) plans.push_back(std::move(plan));
  }
  return plans;
}

absl::StatusOr<std::vector<TuningJob::Kernel>> TuningJob::Load(
    const std::vector<jit::Plan>& plans) {
  KernelTable& table = *place_.served.kernels;
  const auto batch = std::make_shared<Batch>(plans.size());
  for (size_t i = 0; i < plans.size(); ++i) {
    place_.preparer.Behind(
        [batch, i, &table, plan = plans[i], part = Batch::Part(batch)] {
          batch->Set(i, table.LoadAside(plan, KernelTable::Reach::kCompiler,
                                        jit::SteadyNow() + kCompileTimeout));
        });
  }
  while (!batch->WaitFor(kCheckInterval)) RETURN_IF_ERROR(Check());
  std::vector<Batch::Result> results = batch->Take();
  RETURN_IF_ERROR(results[0].status());
  std::vector<Kernel> kernels;
  for (Batch::Result& result : results) {
    kernels.push_back(result.ok() ? std::move(result->kernel) : nullptr);
  }
  return kernels;
}

absl::StatusOr<std::shared_ptr<TuningJob::Field>> TuningJob::Gather(
    TuningOutcome& outcome) {
  const KernelTable& table = *place_.served.kernels;
  for (int refusals = 0;; ++refusals) {
    // Asked for first: of a record that comes in between, the parts of k count
    // as of an older generation, and so will not replace it.
    const auto record = place_.table.Find(order_.problem, product());
    ASSIGN_OR_RETURN(const KernelTable::Best best,
                     table.BestPlan(order_.problem));
    const std::vector<jit::Plan> plans = PlansToTime(best.plan);
    absl::StatusOr<std::vector<Kernel>> kernels = Load(plans);
    // Refused, another one is the present plan from here on.
    if (!kernels.ok() && table.Refuses(plans[0]) && refusals < kMaxRefusals) {
      continue;
    }
    if (!kernels.ok()) return kernels.status();
    auto field = std::make_shared<Field>();
    for (size_t i = 0; i < plans.size(); ++i) {
      Kernel& kernel = (*kernels)[i];
      if (kernel == nullptr) continue;
      field->contenders.push_back({plans[i], kernel->kernel.get()});
      field->kernels.push_back(std::move(kernel));
    }
    if (plans.size() > 1 && field->contenders.size() == 1) {
      return absl::FailedPreconditionError(
          absl::StrCat("no other kernel for ", jit::DebugString(order_.problem),
                       " could be had than the present one"));
    }
    outcome.kernel_before = field->kernels[0]->name;
    outcome.splits_before = best.plan.splits;
    outcome.generation_before = record ? record->generation : 0;
    outcome.measured = static_cast<int>(field->contenders.size());
    outcome.failed = static_cast<int>(plans.size()) - outcome.measured;
    return field;
  }
}

absl::Status TuningJob::Prepare(const std::shared_ptr<Field>& field) {
  device::Device& device = *place_.served.device;
  const device::TimingMemory memory =
      device.TimingMemoryOf(order_.problem, field->contenders);
  absl::StatusOr<QuotaHold> hold;
  int64_t bytes = memory.enough_bytes;
  for (const int64_t wanted : {memory.enough_bytes, memory.least_bytes}) {
    bytes = wanted;
    hold = place_.tensors.ReserveSpare(place_.index, wanted);
    if (hold.ok()) break;
  }
  RETURN_IF_ERROR(hold.status());
  field->memory = *std::move(hold);
  return place_.on_lane([field, &device, bytes,
                         problem = order_.problem]() -> absl::Status {
    ASSIGN_OR_RETURN(field->timing,
                     device.CreateTiming(problem, field->contenders, bytes));
    return absl::OkStatus();
  });
}

absl::StatusOr<double> TuningJob::Sample(const std::shared_ptr<Field>& field,
                                         size_t i) {
  struct Measured {
    double us = 0;
    bool disturbed = false;
  };
  while (true) {
    RETURN_IF_ERROR(Check());
    const auto measured = std::make_shared<Measured>();
    const Executor& executor = *place_.served.products;
    RETURN_IF_ERROR(
        place_.on_lane([field, i, measured, &executor]() -> absl::Status {
          const Executor::Activity before = executor.activity();
          measured->disturbed = before.running > 1;
          if (measured->disturbed) return absl::OkStatus();
          ASSIGN_OR_RETURN(measured->us, field->timing->Sample(i));
          measured->disturbed = executor.activity() != before;
          return absl::OkStatus();
        }));
    if (!measured->disturbed) return measured->us;
    if (++disturbed_ > kMaxDisturbed) {
      return absl::UnavailableError(absl::StrCat(
          "requests keep device ", place_.served.device->description().name,
          " too busy to time kernels on it"));
    }
  }
}

absl::Status TuningJob::CheckBits(const std::shared_ptr<Field>& field,
                                  size_t winner) {
  const auto& contenders = field->contenders;
  if (winner == 0 ||
      contenders[winner].plan.splits != contenders[0].plan.splits) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(Check());
  const auto same = std::make_shared<bool>(false);
  RETURN_IF_ERROR(place_.on_lane([field, winner, same]() -> absl::Status {
    ASSIGN_OR_RETURN(*same, field->timing->GiveSameBits(0, winner));
    return absl::OkStatus();
  }));
  if (*same) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      field->kernels[winner]->name, " gives other bits than ",
      field->kernels[0]->name, " for ", jit::DebugString(order_.problem)));
}

absl::Status TuningJob::Apply(const jit::Plan& winner, TuningOutcome& outcome) {
  jit::TuningRecord record = jit::RecordOf(winner, order_.problem);
  record.device = product();
  record.nanoseconds = std::llround(1000 * outcome.us);
  record.template_digest = place_.table.template_digest();
  record.provenance = "gemmd";
  record.generation = outcome.generation_before;
  if (winner.splits != outcome.splits_before) ++record.generation;
  ASSIGN_OR_RETURN(outcome.record, place_.table.Put(record));
  if (outcome.record != record) {
    // Another job has changed the parts of k meanwhile: what it found counts.
    outcome.us = static_cast<double>(outcome.record.nanoseconds) / 1000;
  }
  UseRecord();
  return absl::OkStatus();
}

void TuningJob::UseRecord() {
  // Loaded first: no request waits for it, nor runs with a substitute. What
  // cannot be loaded now, who asks for it compiles, or is told why not.
  for (ServedDevice* served : place_.alike) {
    if (served->health.failed()) continue;
    KernelTable& table = *served->kernels;
    const auto best = table.BestPlan(order_.problem);
    if (!best.ok()) continue;
    table.Load(best->plan, KernelTable::Reach::kCache, absl::InfinitePast())
        .IgnoreError();
  }
  for (ServedDevice* served : place_.alike) {
    served->kernels->Replan(order_.problem);
  }
}

absl::StatusOr<TuningOutcome> TuningJob::Run() {
  RETURN_IF_ERROR(Check());
  // Another daemon of the cache directory may have tuned the problem since.
  if (place_.table.Refresh(order_.problem, product())) UseRecord();
  TuningOutcome outcome;
  outcome.device = place_.served.title;
  ASSIGN_OR_RETURN(const std::shared_ptr<Field> field, Gather(outcome));
  Contest contest(field->contenders.size());
  {
    // Another job may take long: in the background it rests between slices.
    std::unique_lock lock(place_.timing, std::defer_lock);
    while (!lock.try_lock()) {
      RETURN_IF_ERROR(Check());
      absl::SleepFor(kCheckInterval);
    }
    RETURN_IF_ERROR(Prepare(field));
    while (const auto next = contest.Next()) {
      ASSIGN_OR_RETURN(const double us, Sample(field, *next));
      contest.Add(us);
    }
    RETURN_IF_ERROR(CheckBits(field, contest.result().winner));
  }
  const Contest::Result result = contest.result();
  outcome.us_before = result.incumbent_us;
  outcome.us = result.winner_us;
  RETURN_IF_ERROR(Apply(field->contenders[result.winner].plan, outcome));
  return outcome;
}

}  // namespace gemmd::engine
