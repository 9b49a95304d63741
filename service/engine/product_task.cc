#include "service/engine/product_task.h"

#include <utility>

#include "jit/base/status.h"
#include "jit/base/steady_time.h"
#include "service/engine/bands.h"
#include "service/engine/cost.h"
#include "service/engine/metadata.h"

namespace gemmd::engine {
Execution ToExecution(const ServedDevice& served,
                      const Preparation& preparation) {
  Execution execution;
  execution.device = served.title;
  execution.kernel = preparation.prepared->kernel->name;
  execution.cubin_key = preparation.prepared->kernel->key;
  execution.source = preparation.source;
  const jit::Plan& plan = preparation.prepared->plan;
  execution.arithmetic = served.device->ArithmeticOf(plan);
  execution.splits = plan.splits;
  execution.phases.plan = preparation.plan_time;
  execution.phases.compile = preparation.compile_time;
  return execution;
}

ProductTask::ProductTask(ServedDevice& served, Product product,
                         RequestContext context, Done<ProductResult> done)
    : LaneTask(std::move(context), served.health),
      served_(served),
      admitted_(jit::SteadyNow()),
      may_abandon_(MayBeAbandoned(product)),
      product_(std::move(product)),
      done_(std::move(done)),
      locks_(served.locks) {}

void ProductTask::Queue(Preparation preparation, Places::Entry entry) {
  preparation_ = std::move(preparation);
  const jit::Plan& plan = preparation_.prepared->plan;
  const Work work = {
      .cycles = plan.predicted_cycles,
      .multiplications = HostMultiplications(product_.problem, plan)};
  const absl::Status bounded = served_.products->Check(work);
  if (!bounded.ok()) return GiveUp(bounded);
  set_cost(ProductCost(work.CyclesOn(served_.device->description()), product_));
  const absl::Status admitted = served_.products->Admit(*this, entry);
  if (!admitted.ok()) return GiveUp(admitted);
  auto self = std::static_pointer_cast<ProductTask>(shared_from_this());
  const bool held =
      locks_.Acquire({product_.a.tensor, product_.b.tensor, product_.c.tensor,
                      product_.bias.tensor, product_.a_scale.tensor,
                      product_.b_scale.tensor, product_.d_scale.tensor},
                     {product_.d.tensor, product_.auxiliary.tensor},
                     [self] { self->served_.products->Enqueue(self); });
  if (held) served_.products->Enqueue(std::move(self));
}

// Here and not where bytes are read from the wire: it takes time, and an event
// loop has others to serve.
absl::StatusOr<Results> ProductTask::CheckAndRun(device::Lane& lane,
                                                 Phases& phases) {
  RETURN_IF_ERROR(CheckMetadata(product_));
  const Prepared& prepared = *preparation_.prepared;
  const std::vector<Band> bands = CutIntoBands(
      product_, prepared.plan, served_.device->description().properties);
  return bands.empty()
             ? RunProduct(lane, prepared, product_, context(), phases)
             : RunInBands(lane, prepared, product_, bands, context(), phases);
}

bool ProductTask::Run(device::Lane& lane) {
  ProductResult result;
  result.execution = ToExecution(served_, preparation_);
  result.execution.paths = PathsOf(product_);
  Phases& phases = result.execution.phases;
  phases.queue = jit::SteadyNow() - admitted_ - preparation_.plan_time -
                 preparation_.compile_time;
  auto results = CheckAndRun(lane, phases);
  if (results.ok()) {
    served_.counts.Ran(product_.problem, preparation_.source, phases,
                       jit::SteadyNow() - admitted_);
    const auto& use = preparation_.prepared->use;
    if (use != nullptr) use->Ran(phases.kernels);
  }
  // Who has the answer may count on all being given back.
  locks_.Release();
  product_ = Product();
  if (!results.ok()) {
    done_.Answer(served_.ProductFailed(results.status()));
  } else {
    static_cast<Results&>(result) = *std::move(results);
    result.execution.paths.copies = result.copies;
    done_.Answer(std::move(result));
  }
  return false;
}

void ProductTask::Abandon(const absl::Status& why) {
  if (may_abandon_) done_.Answer(why);
}

void ProductTask::Refuse(const absl::Status& why) {
  locks_.Release();
  done_.Answer(why);
}

}  // namespace gemmd::engine
