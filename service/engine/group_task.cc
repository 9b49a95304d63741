#include "service/engine/group_task.h"

#include <algorithm>
#include <utility>

#include "jit/base/steady_time.h"
#include "jit/plan/group_plan.h"
#include "service/engine/cost.h"

namespace gemmd::engine {
namespace {

using Tensors = std::vector<std::shared_ptr<Tensor>>;

}  // namespace

GroupTask::GroupTask(ServedDevice& served, Preparer& preparer,
                     std::vector<Product> products, RequestContext context,
                     Done<GroupResult> done)
    : LaneTask(std::move(context), served.health),
      served_(served),
      preparer_(preparer),
      admitted_(jit::SteadyNow()),
      may_abandon_(std::ranges::all_of(products, MayBeAbandoned)),
      products_(std::move(products)),
      done_(std::move(done)),
      launches_(GroupLaunches(products_)),
      locks_(served.locks) {}

void GroupTask::PrepareFrom(size_t first, Places::Entry entry) {
  for (size_t j = first; j < launches_.size(); ++j) {
    GroupLaunch& launch = launches_[j];
    const auto i = static_cast<int>(launch.products[0]);
    auto self = std::static_pointer_cast<GroupTask>(shared_from_this());
    if (launch.together()) {
      std::vector<jit::Problem> problems;
      for (const size_t i : launch.products) {
        problems.push_back(products_[i].problem);
      }
      preparing_ = i;
      return preparer_.PrepareGroup(
          *served_.kernels, std::move(problems), /*substitute=*/true, self,
          [self, j](Preparation ready) {
            const bool apart = ready.prepared == nullptr;
            self->launches_[j].preparation = std::move(ready);
            if (apart) self->Split(j);
            self->PrepareFrom(apart ? j : j + 1, Places::Entry::kAlways);
          },
          entry);
    }
    const jit::Problem& problem = products_[launch.products[0]].problem;
    Preparation& preparation = launch.preparation;
    preparation.prepared = served_.kernels->Find(problem);
    if (preparation.prepared != nullptr) {
      preparation.source = KernelSource::kLoaded;
      continue;
    }
    preparing_ = i;
    return preparer_.Prepare(
        *served_.kernels, problem, /*substitute=*/true, self,
        [self, j](Preparation ready) {
          self->launches_[j].preparation = std::move(ready);
          self->PrepareFrom(j + 1, Places::Entry::kAlways);
        },
        entry);
  }
  preparing_ = -1;
  Queue(entry);
}

void GroupTask::Split(size_t launch) {
  std::vector<size_t> products = std::move(launches_[launch].products);
  launches_[launch] = {.products = {products[0]}};
  for (size_t i = 1; i < products.size(); ++i) {
    launches_.push_back({.products = {products[i]}});
  }
}

void GroupTask::Queue(Places::Entry entry) {
  Work work;
  for (const GroupLaunch& launch : launches_) {
    const jit::Plan& plan = launch.preparation.prepared->plan;
    work.cycles += plan.predicted_cycles;
    for (const size_t i : launch.products) {
      work.multiplications += HostMultiplications(products_[i].problem, plan);
    }
  }
  const absl::Status bounded = served_.products->Check(work);
  if (!bounded.ok()) return GiveUp(bounded);
  int64_t uploaded = 0, returned = 0;
  Tensors read, written;
  for (const Product& p : products_) {
    for (const auto input : kInputs) {
      uploaded += SizeOf(p.*input);
      read.push_back((p.*input).tensor);
    }
    returned += ReturnedBytes(p);
    for (const auto result : kResults) written.push_back((p.*result).tensor);
  }
  set_cost(SequenceCost(work.CyclesOn(served_.device->description()), uploaded,
                        returned));
  const absl::Status admitted = served_.products->Admit(*this, entry);
  if (!admitted.ok()) return GiveUp(admitted);
  auto self = std::static_pointer_cast<GroupTask>(shared_from_this());
  const bool held = locks_.Acquire(
      read, written, [self] { self->served_.products->Enqueue(self); });
  if (held) served_.products->Enqueue(std::move(self));
}

GroupResult GroupTask::ToResult(std::vector<Results> results,
                                const Phases& phases) {
  GroupResult all(products_.size());
  for (size_t i = 0; i < products_.size(); ++i) {
    all[i].execution.device = served_.title;
    if (products_[i].problem.epilogue.measures_amax) all[i].amax = 0;
  }
  for (const GroupLaunch& launch : launches_) {
    for (const size_t i : launch.products) {
      static_cast<Results&>(all[i]) = std::move(results[i]);
      all[i].execution = ToExecution(served_, launch.preparation);
      all[i].execution.phases = phases;
      all[i].execution.paths = PathsOf(products_[i]);
      all[i].execution.paths.copies = all[i].copies;
      served_.counts.Multiplied(products_[i].problem,
                                launch.preparation.source);
    }
    // Of a group nothing is remembered.
    const auto& use = launch.preparation.prepared->use;
    if (use != nullptr) use->Ran(phases.execute / std::ssize(launches_));
  }
  return all;
}

bool GroupTask::Run(device::Lane& lane) {
  Phases phases;
  for (const GroupLaunch& launch : launches_) {
    phases.plan += launch.preparation.plan_time;
    phases.compile += launch.preparation.compile_time;
  }
  phases.queue = jit::SteadyNow() - admitted_ - phases.plan - phases.compile;
  auto results = RunGroup(lane, served_.device->description().properties,
                          launches_, products_, context(), phases);
  GroupResult result;
  if (results.ok()) {
    result = ToResult(*std::move(results), phases);
    served_.counts.Took(phases, jit::SteadyNow() - admitted_);
  }
  // Who has the answer may count on all being given back.
  locks_.Release();
  products_.clear();
  if (!results.ok()) {
    done_.Answer(served_.ProductFailed(results.status()));
  } else {
    done_.Answer(std::move(result));
  }
  return false;
}

void GroupTask::Abandon(const absl::Status& why) {
  if (may_abandon_) done_.Answer(why);
}

void GroupTask::Refuse(const absl::Status& why) {
  locks_.Release();
  const int i = preparing_;
  done_.Answer(i < 0 ? why : OfGroup(static_cast<size_t>(i), why));
}

}  // namespace gemmd::engine
