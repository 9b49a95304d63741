#include "service/engine/tuner.h"

#include <algorithm>
#include <utility>

#include "jit/base/status.h"
#include "jit/base/steady_time.h"
#include "service/engine/lane_slice.h"

namespace gemmd::engine {
namespace {

// While one problem is timed, the kernels of the next ones are compiled. Of one
// device:
constexpr int kJobs = 5;
constexpr int kBackgroundJobs = 3;
// After one that finds nothing hot: it keeps requests from the table meanwhile,
// which may know thousands of shapes.
constexpr int kLooksToSkip = 9;
// Who is asked waits so long for a device that does nothing else.
constexpr absl::Duration kPatience = absl::Milliseconds(20);
constexpr absl::Duration kPoll = absl::Milliseconds(1);

bool Quiet(const ServedDevice& served) {
  return served.products->waiting() == 0 &&
         served.products->activity().running == 0;
}

}  // namespace

Tuner::Tuner(Options options,
             const std::vector<std::unique_ptr<ServedDevice>>& devices,
             TensorStore& tensors, Preparer& preparer, jit::TuningTable* table)
    : options_(options),
      devices_(devices),
      tensors_(tensors),
      preparer_(preparer),
      table_(table),
      jobs_(kJobs * static_cast<int>(devices.size())) {
  for (size_t i = 0; i < devices.size(); ++i) {
    benches_.push_back(std::make_unique<Bench>());
  }
  if (options_.share_percent > 0 && table_ != nullptr) {
    look_ =
        std::make_unique<Periodic>(options_.interval, [this] { LookForHot(); });
  }
}

void Tuner::Stop() {
  look_.reset();
  {
    std::lock_guard lock(mutex_);
    *stopping_ = true;
  }
  stopped_.notify_all();
  jobs_.Stop();
}

void Tuner::Sleep(absl::Duration time) const {
  std::unique_lock lock(mutex_);
  stopped_.wait_for(lock, absl::ToChronoNanoseconds(time),
                    [this] { return stopping_->load(); });
}

void Tuner::Tune(TuningOrder order, int device, RequestContext context,
                 Done<TuningOutcome> done) {
  const std::string identity = context.identity;
  jobs_.Submit(identity, [this, order = std::move(order), device,
                          context = std::move(context),
                          done = std::move(done)]() mutable {
    done(Run(order, device, context, /*background=*/false));
  });
}

absl::StatusOr<TuningOutcome> Tuner::Run(const TuningOrder& order, int device,
                                         const RequestContext& context,
                                         bool background) {
  if (table_ == nullptr) {
    return absl::FailedPreconditionError("there is no table of tuning records");
  }
  ServedDevice& served = *devices_[device];
  std::vector<ServedDevice*> alike;
  for (const auto& other : devices_) {
    if (other->device->description().product ==
        served.device->description().product) {
      alike.push_back(other.get());
    }
  }
  const TuningPlace place = {
      .served = served,
      .index = device,
      .alike = std::move(alike),
      .tensors = tensors_,
      .preparer = preparer_,
      .table = *table_,
      .timing = benches_[device]->timing,
      .stopping = *stopping_,
      .on_lane = [&](absl::AnyInvocable<absl::Status()> work) {
        return OnLane(device, context, background, std::move(work));
      }};
  auto outcome = TuningJob(place, order, context).Run();
  ++(outcome.ok() ? tuned_ : failed_);
  return outcome;
}

absl::Status Tuner::AwaitTurn(int device, const RequestContext& context,
                              bool background) {
  const ServedDevice& served = *devices_[device];
  Bench& bench = *benches_[device];
  for (absl::Duration waited;; waited += kPoll) {
    RETURN_IF_ERROR(context.Check("tuning"));
    RETURN_IF_ERROR(served.health.Check());
    absl::Duration rest;
    if (background) {
      std::lock_guard lock(bench.mutex);
      rest = bench.rests_until - jit::SteadyNow();
      if (rest <= absl::ZeroDuration()) return absl::OkStatus();
    } else if (Quiet(served) || waited >= kPatience) {
      return absl::OkStatus();
    }
    Sleep(std::max(rest, kPoll));
    if (*stopping_)
      return absl::UnavailableError("the daemon is shutting down");
  }
}

absl::Status Tuner::OnLane(int device, const RequestContext& context,
                           bool background,
                           absl::AnyInvocable<absl::Status()> work) {
  RETURN_IF_ERROR(AwaitTurn(device, context, background));
  ServedDevice& served = *devices_[device];
  // One slice at a time: this is what products lose by it, lanes that wait for
  // others to end included.
  const absl::Duration before = served.products->reserved();
  RETURN_IF_ERROR(RunOnLane(served, context, std::move(work)));
  if (!background) return absl::OkStatus();
  const absl::Duration taken = served.products->reserved() - before;
  Bench& bench = *benches_[device];
  std::lock_guard lock(bench.mutex);
  bench.device_time += taken;
  bench.rests_until =
      jit::SteadyNow() + taken * (100.0 / options_.share_percent - 1);
  return absl::OkStatus();
}

void Tuner::LookForHot() {
  for (size_t i = 0; i < devices_.size(); ++i) {
    const ServedDevice& served = *devices_[i];
    Bench& bench = *benches_[i];
    if (!served.device->description().times_kernels) continue;
    if (served.health.failed()) continue;
    const int free = kBackgroundJobs - bench.background_jobs;
    if (free <= 0 || bench.looks_to_skip-- > 0) continue;
    std::vector<KernelTable::Hot> hottest = served.kernels->Hottest(
        static_cast<size_t>(free), options_.least_finds);
    bench.looks_to_skip = hottest.empty() ? kLooksToSkip : 0;
    for (KernelTable::Hot& hot : hottest) {
      // Until it is tuned, it has to become hot again before another try: what
      // fails each time (without a compiler, say) is tried ever less.
      served.kernels->Cool(hot.problem);
      ++bench.background_jobs;
      jobs_.Submit("", [this, i, &bench, problem = hot.problem] {
        RequestContext context;
        context.cancelled = stopping_;
        const auto outcome = Run({.problem = problem}, static_cast<int>(i),
                                 context, /*background=*/true);
        if (!outcome.ok() && options_.gave_up && !*stopping_) {
          options_.gave_up(problem, outcome.status());
        }
        --bench.background_jobs;
      });
    }
  }
}

Tuner::Progress Tuner::progress() const {
  Progress progress = {.tuned = tuned_, .failed = failed_};
  if (table_ != nullptr) {
    progress.records = static_cast<int64_t>(table_->size());
  }
  for (const auto& bench : benches_) {
    std::lock_guard lock(bench->mutex);
    progress.device_time += bench->device_time;
  }
  return progress;
}

}  // namespace gemmd::engine
