#include "service/engine/sequence_task.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "jit/base/status.h"
#include "jit/base/steady_time.h"
#include "service/engine/cost.h"

namespace gemmd::engine {
namespace {

// Kernels under way for steps behind the one that is waited for: enough for
// every thread that compiles, and no more than a client may burden others with.
constexpr size_t kAhead = 16;

}  // namespace

SequenceTask::SequenceTask(ServedDevice& served, Preparer& preparer,
                           Sequence sequence, RequestContext context,
                           Done<SequenceResult> done)
    : LaneTask(std::move(context), served.health),
      served_(served),
      preparer_(preparer),
      admitted_(jit::SteadyNow()),
      may_abandon_(MayBeAbandoned(sequence)),
      sequence_(std::move(sequence)),
      done_(std::move(done)),
      kernels_(sequence_.steps),
      ahead_(kernels_.all().size()),
      locks_(served.locks) {
  MarkChanges(sequence_);
}

std::vector<size_t> SequenceTask::ColdKernels() const {
  std::vector<size_t> cold;
  for (size_t i = 0; i < kernels_.all().size(); ++i) {
    const size_t step = kernels_.all()[i].first;
    if (!served_.kernels->Knows(sequence_.steps[step].problem)) {
      cold.push_back(i);
    }
  }
  return cold;
}

void SequenceTask::Start() {
  cold_ = ColdKernels();
  PrepareFrom(0, Places::Entry::kIfFree);
}

void SequenceTask::PrepareBehind(size_t kernel) {
  const auto after = std::ranges::upper_bound(cold_, kernel) - cold_.begin();
  const size_t end =
      std::min(cold_.size(), static_cast<size_t>(after) + kAhead);
  auto self = std::static_pointer_cast<SequenceTask>(shared_from_this());
  for (begun_ = std::max(begun_, static_cast<size_t>(after)); begun_ < end;
       ++begun_) {
    const size_t later = cold_[begun_];
    const Product& step = sequence_.steps[kernels_.all()[later].first];
    preparer_.PrepareAhead(*served_.kernels, step.problem, self,
                           [self, later](const Preparation& ready) {
                             self->ahead_[later] = ready.source;
                           });
  }
}

void SequenceTask::PrepareFrom(size_t first, Places::Entry entry) {
  for (size_t i = first; i < kernels_.all().size(); ++i) {
    auto& [step, steps, preparation] = kernels_.all()[i];
    const jit::Problem& problem = sequence_.steps[step].problem;
    preparation.prepared = served_.kernels->Find(problem, steps);
    if (preparation.prepared != nullptr) {
      preparation.source = KernelSource::kLoaded;
      continue;
    }
    preparing_ = static_cast<int>(step);
    PrepareBehind(i);
    auto self = std::static_pointer_cast<SequenceTask>(shared_from_this());
    return preparer_.Prepare(
        *served_.kernels, problem, /*substitute=*/true, self,
        [self, i](Preparation ready) {
          self->kernels_.all()[i].preparation = std::move(ready);
          self->PrepareFrom(i + 1, Places::Entry::kAlways);
        },
        entry);
  }
  preparing_ = -1;
  for (size_t i = 0; i < ahead_.size(); ++i) {
    if (ahead_[i] == KernelSource::kCompiled) {
      kernels_.all()[i].preparation.source = KernelSource::kCompiled;
    }
  }
  Queue(entry);
}

int64_t SequenceTask::Cost(const Work& work) const {
  int64_t uploaded = 0;
  for (const Sequence::Operand& operand : sequence_.operands) {
    uploaded += SizeOf(operand.bytes);
  }
  return SequenceCost(work.CyclesOn(served_.device->description()), uploaded,
                      ReturnedBytes(sequence_));
}

void SequenceTask::Queue(Places::Entry entry) {
  Work work = {.cycles = kernels_.Cycles()};
  for (const auto& [first, steps, preparation] : kernels_.all()) {
    work.multiplications += static_cast<double>(steps) *
                            HostMultiplications(sequence_.steps[first].problem,
                                                preparation.prepared->plan);
  }
  const absl::Status bounded = served_.products->Check(work);
  if (!bounded.ok()) return GiveUp(bounded);
  set_cost(Cost(work));
  const absl::Status admitted = served_.products->Admit(*this, entry);
  if (!admitted.ok()) return GiveUp(admitted);
  auto self = std::static_pointer_cast<SequenceTask>(shared_from_this());
  const NamedTensors tensors(sequence_);
  const bool held = locks_.Acquire(tensors.read, tensors.written, [self] {
    self->served_.products->Enqueue(self);
  });
  if (held) served_.products->Enqueue(std::move(self));
}

SequenceResult SequenceTask::Outline() const {
  // What two steps that run the same way have in common.
  using Way = std::tuple<const StepKernel*, KernelSource, Paths>;
  absl::flat_hash_map<Way, size_t> ways;
  const std::vector<Paths> paths = PathsOf(sequence_);
  SequenceResult result;
  result.steps.resize(paths.size());
  for (size_t i = 0; i < paths.size(); ++i) {
    Way way;
    if (kernels_.has(i)) {
      way = {&kernels_.of(i), kernels_.SourceOf(i), paths[i]};
    }
    const auto [known, is_new] =
        ways.try_emplace(way, result.executions.size());
    result.steps[i].execution = known->second;
    if (is_new) result.executions.push_back(ExecutionOf(i, paths[i]));
  }
  return result;
}

Execution SequenceTask::ExecutionOf(size_t step, const Paths& paths) const {
  Execution execution;
  if (kernels_.has(step)) {
    execution = ToExecution(served_, kernels_.of(step).preparation);
    execution.source = kernels_.SourceOf(step);
    execution.phases = {};
    execution.paths = paths;
  }
  execution.device = served_.title;
  return execution;
}

// Each step has the part of the time that was predicted for it.
void SequenceTask::CountSteps(absl::Duration execute) {
  const double cycles = kernels_.Cycles();
  for (const auto& [first, steps, preparation] : kernels_.all()) {
    const jit::Problem& problem = sequence_.steps[first].problem;
    served_.counts.Multiplied(problem, preparation.source);
    served_.counts.Multiplied(problem, KernelSource::kLoaded, steps - 1);
    const Prepared& prepared = *preparation.prepared;
    if (prepared.use == nullptr || cycles <= 0) continue;
    const double part =
        static_cast<double>(steps) * prepared.plan.predicted_cycles / cycles;
    prepared.use->Ran(execute * part, steps);
  }
}

bool SequenceTask::Run(device::Lane& lane) {
  Phases phases;
  for (const StepKernel& kernel : kernels_.all()) {
    phases.plan += kernel.preparation.plan_time;
    phases.compile += kernel.preparation.compile_time;
  }
  phases.queue = jit::SteadyNow() - admitted_ - phases.plan - phases.compile;
  SequenceResult result;
  auto results =
      RunSequence(lane, kernels_.OfSteps(), sequence_, context(), phases,
                  /*meanwhile=*/[&] { result = Outline(); });
  if (results.ok()) {
    for (size_t i = 0; i < results->size(); ++i) {
      static_cast<Results&>(result.steps[i]) = std::move((*results)[i]);
    }
    result.phases = phases;
    CountSteps(phases.execute);
    served_.counts.Took(phases, jit::SteadyNow() - admitted_);
  }
  // Who has the answer may count on all being given back.
  locks_.Release();
  sequence_ = Sequence();
  if (!results.ok()) {
    done_.Answer(served_.ProductFailed(results.status()));
  } else {
    done_.Answer(std::move(result));
  }
  return false;
}

void SequenceTask::Abandon(const absl::Status& why) {
  if (may_abandon_) done_.Answer(why);
}

void SequenceTask::Refuse(const absl::Status& why) {
  locks_.Release();
  const int step = preparing_;
  done_.Answer(step < 0 ? why : OfStep(static_cast<size_t>(step), why));
}

}  // namespace gemmd::engine
