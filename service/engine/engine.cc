#include "service/engine/engine.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "jit/base/status.h"

namespace gemmd::engine {
namespace {

constexpr absl::Duration kExpiryInterval = absl::Seconds(1);
// For a kernel that is prepared while a substitute serves.
constexpr absl::Duration kBehindTimeout = absl::Minutes(10);

}  // namespace

// A product on its way through the queue.
struct Engine::Running {
  Place& place;
  Product product;
  RequestContext context;
  Done<ProductResult> done;
  Executor::Ticket ticket;
  absl::Time admitted;
  Preparation preparation;
};

Engine::Engine(Options options, jit::KernelCache& cache)
    : cache_(cache),
      tensors_(options.tensors),
      prepare_(std::make_unique<ThreadPool>(options.prepare_threads)),
      expiry_(kExpiryInterval, [this] { tensors_.Expire(); }) {}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(
    Options options, std::vector<std::unique_ptr<device::Device>> devices,
    jit::KernelCache& cache, const jit::TemplateLibrary& templates) {
  CHECK(!devices.empty());
  auto engine = std::unique_ptr<Engine>(new Engine(options, cache));
  for (auto& device : devices) {
    auto place = std::make_unique<Place>();
    place->device = std::move(device);
    const device::Description& description = place->device->description();
    place->title =
        description.driver.empty()
            ? description.name
            : absl::StrCat(description.name, " ", description.product);
    options.kernels.reserve_form =
        [&tensors =
             engine->tensors_](int64_t bytes) -> std::shared_ptr<const void> {
      auto hold = tensors.ReserveSpare(bytes);
      if (!hold.ok()) return nullptr;
      return std::make_shared<const QuotaHold>(*std::move(hold));
    };
    place->kernels = std::make_unique<KernelTable>(*place->device, cache,
                                                   templates, options.kernels);
    ASSIGN_OR_RETURN(place->executor,
                     Executor::Create(*place->device, options.executor));
    engine->places_.push_back(std::move(place));
  }
  return engine;
}

Engine::~Engine() {
  prepare_.reset();  // It feeds the executors,
  for (auto& place : places_) place->executor.reset();  // which use the rest.
}

absl::StatusOr<int> Engine::ChooseDevice(absl::string_view name) const {
  int least = 0;
  for (int i = 0; i < device_count(); ++i) {
    if (device(i).description().name == name) return i;
    if (places_[i]->executor->load() < places_[least]->executor->load()) {
      least = i;
    }
  }
  if (name.empty()) return least;
  return absl::InvalidArgumentError(absl::StrCat(
      "device is unknown; this daemon has: ",
      absl::StrJoin(places_, ", ", [](std::string* out, const auto& place) {
        out->append(place->device->description().name);
      })));
}

int64_t Engine::waiting() const {
  int64_t sum = 0;
  for (const auto& place : places_) sum += place->executor->waiting();
  return sum;
}

void Engine::Multiply(Product product, int device, RequestContext context,
                      Done<ProductResult> done) {
  Place& place = *places_[device];
  if (absl::Status status = context.Check("admission"); !status.ok()) {
    return done(status);
  }
  if (!product.problem.writes()) {
    ProductResult nothing;
    nothing.execution.device = place.title;
    return done(std::move(nothing));
  }
  auto ticket = place.executor->Admit();
  if (!ticket.ok()) return done(ticket.status());
  auto running = std::unique_ptr<Running>(new Running{
      place, std::move(product), std::move(context), std::move(done),
      *std::move(ticket), absl::Now(), Preparation()});
  Preparation& preparation = running->preparation;
  const jit::Problem& problem = running->product.problem;
  preparation.prepared = place.kernels->Find(problem);
  if (preparation.prepared == nullptr) {
    auto choice = place.kernels->Choose(problem);
    if (!choice.ok()) return running->done(choice.status());
    preparation.prepared = std::move(choice->prepared);
    if (preparation.prepared != nullptr && choice->wanted) {
      PrepareBehind(place, problem);
    }
  }
  if (preparation.prepared != nullptr) {
    preparation.source = KernelSource::kLoaded;
    preparation.plan_time = absl::Now() - running->admitted;
    return RunPrepared(std::move(running));
  }
  prepare_->Submit([running = std::move(running)]() mutable {
    if (absl::Status status = running->context.Check("compilation");
        !status.ok()) {
      return running->done(status);
    }
    auto prepared =
        engine::Prepare(*running->place.kernels, running->product.problem,
                        running->context.deadline);
    if (!prepared.ok()) return running->done(prepared.status());
    running->preparation = *std::move(prepared);
    RunPrepared(std::move(running));
  });
}

void Engine::PrepareBehind(Place& place, const jit::Problem& problem) {
  prepare_->Submit([&place, problem] {
    // The cache counts what goes wrong; requests keep their substitute.
    engine::Prepare(*place.kernels, problem, absl::Now() + kBehindTimeout)
        .IgnoreError();
  });
}

void Engine::RunPrepared(std::unique_ptr<Running> running) {
  Place& place = running->place;
  Executor::Ticket ticket = std::move(running->ticket);
  RequestContext context = running->context;
  place.executor->Run(
      std::move(ticket), std::move(context),
      [running = std::move(running)](absl::StatusOr<device::Lane*> lane) {
        if (!lane.ok()) return running->done(lane.status());
        const Preparation& preparation = running->preparation;
        ProductResult result;
        Execution& execution = result.execution;
        execution.device = running->place.title;
        execution.kernel = preparation.prepared->kernel->name;
        execution.cubin_key = preparation.prepared->kernel->key;
        execution.source = preparation.source;
        execution.phases.plan = preparation.plan_time;
        execution.phases.compile = preparation.compile_time;
        execution.phases.queue = absl::Now() - running->admitted -
                                 preparation.plan_time -
                                 preparation.compile_time;
        auto results =
            RunProduct(**lane, *preparation.prepared, running->product,
                       running->context, execution.phases);
        if (!results.ok()) return running->done(results.status());
        static_cast<Results&>(result) = *std::move(results);
        running->done(std::move(result));
      });
}

void Engine::Prepare(jit::Problem problem, int device, RequestContext context,
                     Done<Execution> done) {
  Place& place = *places_[device];
  prepare_->Submit([&place, problem, context = std::move(context),
                    done = std::move(done)]() mutable {
    if (absl::Status status = context.Check("compilation"); !status.ok()) {
      return done(status);
    }
    Execution execution;
    execution.device = place.title;
    if (problem.writes()) {
      auto prepared =
          engine::Prepare(*place.kernels, problem, context.deadline);
      if (!prepared.ok()) return done(prepared.status());
      execution.kernel = prepared->prepared->kernel->name;
      execution.cubin_key = prepared->prepared->kernel->key;
      execution.source = prepared->source;
      execution.phases.plan = prepared->plan_time;
      execution.phases.compile = prepared->compile_time;
    }
    done(std::move(execution));
  });
}

template <typename T, typename Work>
void Engine::OnLane(Place& place, RequestContext context, Work work,
                    Done<T> done) {
  auto ticket = place.executor->Admit();
  if (!ticket.ok()) return done(ticket.status());
  place.executor->Run(*std::move(ticket), std::move(context),
                      [work = std::move(work), done = std::move(done)](
                          absl::StatusOr<device::Lane*> lane) mutable {
                        if (!lane.ok()) return done(lane.status());
                        done(work(**lane));
                      });
}

void Engine::CreateTensor(TensorSpec spec, RequestContext context,
                          Done<std::shared_ptr<Tensor>> done) {
  auto quota = tensors_.Reserve(spec.layout.device_bytes());
  if (!quota.ok()) return done(quota.status());
  Place& place = *places_[spec.device];
  OnLane<std::shared_ptr<Tensor>>(
      place, std::move(context),
      [this, spec = std::move(spec),
       quota = *std::move(quota)](device::Lane& lane) mutable
      -> absl::StatusOr<std::shared_ptr<Tensor>> {
        ASSIGN_OR_RETURN(auto matrix, lane.Allocate(spec.layout));
        RETURN_IF_ERROR(lane.Clear(*matrix));
        RETURN_IF_ERROR(lane.Synchronize());
        auto tensor = std::make_shared<Tensor>(
            Tensor::Identity{TensorStore::NewHandle(), std::move(spec.label),
                             spec.device, spec.ttl},
            std::move(matrix), std::move(quota));
        RETURN_IF_ERROR(tensors_.Insert(tensor));
        return tensor;
      },
      std::move(done));
}

void Engine::Upload(std::shared_ptr<Tensor> tensor, device::HostMatrix from,
                    device::LineRange lines, RequestContext context,
                    Done<std::monostate> done) {
  Place& place = *places_[tensor->identity().device];
  const absl::Time deadline = context.deadline;
  OnLane<std::monostate>(
      place, std::move(context),
      [tensor = std::move(tensor), from, lines,
       deadline](device::Lane& lane) -> absl::StatusOr<std::monostate> {
        ASSIGN_OR_RETURN(const TensorLocks locks,
                         TensorLocks::Acquire({}, tensor, deadline));
        RETURN_IF_ERROR(lane.Upload(from, lines, TensorLocks::matrix(*tensor)));
        RETURN_IF_ERROR(lane.Synchronize());
        return std::monostate();
      },
      std::move(done));
}

void Engine::Download(std::shared_ptr<Tensor> tensor, device::LineRange lines,
                      int64_t pitch_bytes, RequestContext context,
                      Done<TensorPart> done) {
  Place& place = *places_[tensor->identity().device];
  const absl::Time deadline = context.deadline;
  OnLane<TensorPart>(
      place, std::move(context),
      [tensor = std::move(tensor), lines, pitch_bytes,
       deadline](device::Lane& lane) -> absl::StatusOr<TensorPart> {
        ASSIGN_OR_RETURN(const TensorLocks locks,
                         TensorLocks::Acquire({tensor}, nullptr, deadline));
        TensorPart part;
        ASSIGN_OR_RETURN(part.bytes, lane.Download(TensorLocks::matrix(*tensor),
                                                   lines, pitch_bytes));
        part.version = TensorLocks::version(*tensor);
        return part;
      },
      std::move(done));
}

}  // namespace gemmd::engine
