#include "service/engine/sequence_task.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/base/status.h"
#include "service/engine/cost.h"
#include "service/engine/shape.h"

namespace gemmd::engine {
namespace {

// Kernels under way for steps behind the one that is waited for: enough for
// every thread that compiles, and no more than a client may burden others with.
constexpr size_t kAhead = 16;

using Tensors = std::vector<std::shared_ptr<Tensor>>;

// Those that others can name, by what the steps do with them.
struct Named {
  Tensors read, written;
};

Named NamedTensors(const Sequence& sequence) {
  Named all;
  const auto add = [](const std::shared_ptr<Tensor>& tensor, Tensors& to) {
    if (tensor != nullptr && !IsRoom(*tensor)) to.push_back(tensor);
  };
  for (const Product& step : sequence.steps) {
    for (const auto input : kInputs) add((step.*input).tensor, all.read);
    for (const auto result : kResults) add((step.*result).tensor, all.written);
  }
  return all;
}

}  // namespace

SequenceTask::SequenceTask(ServedDevice& served, Preparer& preparer,
                           Sequence sequence, RequestContext context,
                           Done<SequenceResult> done)
    : LaneTask(std::move(context), served.health),
      served_(served),
      preparer_(preparer),
      admitted_(absl::Now()),
      may_abandon_(MayBeAbandoned(sequence)),
      sequence_(std::move(sequence)),
      done_(std::move(done)),
      preparations_(sequence_.steps.size()),
      ahead_(sequence_.steps.size()),
      locks_(served.locks) {
  MarkChanges(sequence_);
}

std::vector<size_t> SequenceTask::ColdSteps() const {
  std::vector<size_t> cold;
  absl::flat_hash_set<Shape> seen;
  for (size_t i = 0; i < sequence_.steps.size(); ++i) {
    const jit::Problem& problem = sequence_.steps[i].problem;
    if (!problem.writes() || !seen.insert(Shape(problem)).second) continue;
    if (!served_.kernels->Knows(problem)) cold.push_back(i);
  }
  return cold;
}

void SequenceTask::Start() {
  cold_ = ColdSteps();
  PrepareFrom(0, Places::Entry::kIfFree);
}

void SequenceTask::PrepareBehind(size_t step) {
  const auto after = std::ranges::upper_bound(cold_, step) - cold_.begin();
  const size_t end =
      std::min(cold_.size(), static_cast<size_t>(after) + kAhead);
  auto self = std::static_pointer_cast<SequenceTask>(shared_from_this());
  for (begun_ = std::max(begun_, static_cast<size_t>(after)); begun_ < end;
       ++begun_) {
    const size_t later = cold_[begun_];
    preparer_.PrepareAhead(*served_.kernels, sequence_.steps[later].problem,
                           self, [self, later](const Preparation& ready) {
                             self->ahead_[later] = ready.source;
                           });
  }
}

void SequenceTask::PrepareFrom(size_t first, Places::Entry entry) {
  for (size_t i = first; i < sequence_.steps.size(); ++i) {
    const jit::Problem& problem = sequence_.steps[i].problem;
    if (!problem.writes()) continue;
    Preparation& preparation = preparations_[i];
    preparation.prepared = served_.kernels->Find(problem);
    if (preparation.prepared != nullptr) {
      preparation.source = KernelSource::kLoaded;
      continue;
    }
    preparing_ = static_cast<int>(i);
    PrepareBehind(i);
    auto self = std::static_pointer_cast<SequenceTask>(shared_from_this());
    return preparer_.Prepare(
        *served_.kernels, problem, /*substitute=*/true, self,
        [self, i](Preparation ready) {
          self->preparations_[i] = std::move(ready);
          self->PrepareFrom(i + 1, Places::Entry::kAlways);
        },
        entry);
  }
  preparing_ = -1;
  for (size_t i = 0; i < ahead_.size(); ++i) {
    if (ahead_[i] == KernelSource::kCompiled) {
      preparations_[i].source = KernelSource::kCompiled;
    }
  }
  Queue(entry);
}

double SequenceTask::ProductCycles() const {
  double cycles = 0;
  for (const Preparation& preparation : preparations_) {
    if (preparation.prepared == nullptr) continue;
    cycles += preparation.prepared->plan.predicted_cycles;
  }
  return cycles;
}

int64_t SequenceTask::Cost() const {
  int64_t uploaded = 0;
  for (const Sequence::Operand& operand : sequence_.operands) {
    uploaded += SizeOf(operand.bytes);
  }
  return SequenceCost(ProductCycles(), uploaded, ReturnedBytes(sequence_));
}

void SequenceTask::Queue(Places::Entry entry) {
  const double cycles = ProductCycles();
  if (cycles > static_cast<double>(kMaxSequenceCycles)) {
    return GiveUp(absl::ResourceExhaustedError(absl::StrCat(
        "steps are predicted to take ", cycles, " cycles in all; allowed: ",
        kMaxSequenceCycles, ", about a second. Use several calls.")));
  }
  set_cost(Cost());
  const absl::Status admitted = served_.products->Admit(*this, entry);
  if (!admitted.ok()) return GiveUp(admitted);
  auto self = std::static_pointer_cast<SequenceTask>(shared_from_this());
  const Named tensors = NamedTensors(sequence_);
  const bool held = locks_.Acquire(tensors.read, tensors.written, [self] {
    self->served_.products->Enqueue(self);
  });
  if (held) served_.products->Enqueue(std::move(self));
}

SequenceResult SequenceTask::ToResult(std::vector<Results> results,
                                      const Phases& phases) {
  const double cycles = ProductCycles();
  const std::vector<Paths> paths = PathsOf(sequence_);
  SequenceResult result;
  result.phases = phases;
  for (size_t i = 0; i < results.size(); ++i) {
    const Preparation& preparation = preparations_[i];
    ProductResult& step = result.steps.emplace_back();
    static_cast<Results&>(step) = std::move(results[i]);
    const jit::Problem& problem = sequence_.steps[i].problem;
    if (preparation.prepared == nullptr) {
      step.execution.device = served_.title;
      if (problem.epilogue.measures_amax) step.amax = 0;
      continue;
    }
    step.execution = ToExecution(served_, preparation);
    step.execution.phases = {};
    step.execution.paths = paths[i];
    served_.counts.Multiplied(problem, preparation.source);
    // Each has the part of the time that was predicted for it.
    const auto& use = preparation.prepared->use;
    if (use != nullptr && cycles > 0) {
      use->Ran(phases.execute *
               (preparation.prepared->plan.predicted_cycles / cycles));
    }
  }
  return result;
}

bool SequenceTask::Run(device::Lane& lane) {
  std::vector<std::shared_ptr<const Prepared>> prepared;
  Phases phases;
  for (const Preparation& preparation : preparations_) {
    prepared.push_back(preparation.prepared);
    phases.plan += preparation.plan_time;
    phases.compile += preparation.compile_time;
  }
  phases.queue = absl::Now() - admitted_ - phases.plan - phases.compile;
  auto results = RunSequence(lane, prepared, sequence_, context(), phases);
  SequenceResult result;
  if (results.ok()) {
    result = ToResult(*std::move(results), phases);
    served_.counts.Took(phases, absl::Now() - admitted_);
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
