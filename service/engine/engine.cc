#include "service/engine/engine.h"

#include <utility>

#include "absl/time/clock.h"
#include "jit/base/status.h"
#include "service/engine/placement.h"

namespace gemmd::engine {
namespace {

constexpr absl::Duration kExpiryInterval = absl::Seconds(1);
// How late it may be noticed that nobody waits for a request any more.
constexpr absl::Duration kSweepInterval = absl::Milliseconds(10);
constexpr int kBackgroundThreads = 2;

// Waits for a kernel and for nothing else.
template <typename Answer>
class PrepareTask final : public Waiter {
 public:
  PrepareTask(ServedDevice& served, RequestContext context, Done<Answer> done)
      : Waiter(std::move(context), served.health), done_(std::move(done)) {}

  void Finish(Answer answer) {
    if (Begin()) done_.Answer(std::move(answer));
  }

 private:
  void Refuse(const absl::Status& why) override { done_.Answer(why); }

  Once<Answer> done_;
};

}  // namespace

Engine::Engine(Options options, jit::KernelCache& cache)
    : cache_(cache),
      background_(kBackgroundThreads),
      preparer_(std::make_unique<Preparer>(options.preparer)) {}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(
    Options options, std::vector<std::unique_ptr<device::Device>> devices,
    jit::KernelCache& cache, const jit::TemplateLibrary& templates) {
  CHECK(!devices.empty());
  auto engine = std::unique_ptr<Engine>(new Engine(options, cache));
  std::vector<int64_t> memory_bytes;
  for (const auto& device : devices) {
    memory_bytes.push_back(device->description().memory_bytes);
  }
  engine->tensors_ =
      std::make_unique<TensorStore>(options.tensors, memory_bytes);
  options.kernels.tuning = options.tuning;
  for (auto& device : devices) {
    const int index = engine->device_count();
    options.kernels.device = index;
    options.kernels.reserve_form =
        [&tensors = *engine->tensors_,
         index](int64_t bytes) -> std::shared_ptr<const void> {
      auto hold = tensors.ReserveSpare(index, bytes);
      if (!hold.ok()) return nullptr;
      return std::make_shared<const QuotaHold>(*std::move(hold));
    };
    ASSIGN_OR_RETURN(
        auto served,
        ServedDevice::Create(std::move(device), engine->locks_, cache,
                             templates, options.kernels, options.executor));
    engine->devices_.push_back(std::move(served));
  }
  engine->tuner_ = std::make_unique<Tuner>(options.tuner, engine->devices_,
                                           *engine->tensors_,
                                           *engine->preparer_, options.tuning);
  engine->sweep_ = std::make_unique<Periodic>(
      kSweepInterval, [engine = engine.get()] { engine->Sweep(); });
  engine->expiry_ = std::make_unique<Periodic>(
      kExpiryInterval, [engine = engine.get()] { engine->tensors_->Expire(); });
  return engine;
}

Engine::~Engine() {
  expiry_.reset();
  sweep_.reset();
  background_.Stop();
  tuner_.reset();     // It uses all of these.
  preparer_.reset();  // It feeds the devices,
  for (const auto& served : devices_) served->Stop();
  tensors_->Clear();  // whose memory goes back to them
  devices_.clear();   // before they end.
}

void Engine::Sweep() {
  preparer_->Sweep();
  for (const auto& served : devices_) {
    served->products->Sweep();
    served->transfers->Sweep();
  }
}

absl::Status Engine::Probe(int i) {
  RETURN_IF_ERROR(device_state(i));
  return devices_[i]->Note(devices_[i]->device->Probe());
}

void Engine::MarkFailed(int i, absl::string_view reason) {
  devices_[i]->health.Fail(reason);
}

absl::StatusOr<int> Engine::ChooseDevice(absl::string_view name) const {
  return name.empty() ? LeastLoaded(devices_) : DeviceNamed(devices_, name);
}

absl::StatusOr<int> Engine::ChooseDevice(
    absl::Span<const std::shared_ptr<Tensor>> tensors) const {
  return tensors.empty() ? LeastLoaded(devices_)
                         : NearestTo(devices_, *tensors_, tensors);
}

void Engine::NeedHomes(Waiter& task, int device, const Product& product) const {
  for (const auto input : kInputs) {
    const Tensor* const tensor = (product.*input).tensor.get();
    if (tensor == nullptr || tensor->identity().device == device) continue;
    task.AlsoNeeds(devices_[tensor->identity().device]->health);
  }
}

int64_t Engine::waiting() const {
  int64_t sum = preparer_->waiting();
  for (const auto& served : devices_) {
    sum += served->products->waiting() + served->transfers->waiting();
  }
  return sum;
}

int64_t Engine::waiting_of(const std::string& identity) const {
  int64_t sum = preparer_->waiting_of(identity);
  for (const auto& served : devices_) {
    sum += served->products->waiting_of(identity) +
           served->transfers->waiting_of(identity);
  }
  return sum;
}

void Engine::Multiply(Product product, int device, RequestContext context,
                      Done<ProductResult> done) {
  ServedDevice& served = *devices_[device];
  if (!product.problem.writes()) {
    ProductResult nothing;
    nothing.execution.device = served.title;
    if (product.problem.epilogue.measures_amax) nothing.amax = 0;
    return done(std::move(nothing));
  }
  auto task = std::make_shared<ProductTask>(
      served, std::move(product), std::move(context), std::move(done));
  NeedHomes(*task, device, task->product());
  if (absl::Status why = task->Check("admission"); !why.ok()) {
    return task->GiveUp(why);
  }
  Preparation known;
  known.prepared = served.kernels->Find(task->product().problem);
  if (known.prepared != nullptr) {
    known.source = KernelSource::kLoaded;
    return task->Queue(std::move(known), Places::Entry::kIfFree);
  }
  preparer_->Prepare(
      *served.kernels, task->product().problem,
      /*substitute=*/true, task, [task](Preparation preparation) {
        task->Queue(std::move(preparation), Places::Entry::kAlways);
      });
}

void Engine::MultiplyTogether(std::vector<Product> products, int device,
                              RequestContext context, Done<GroupResult> done) {
  auto task = std::make_shared<GroupTask>(*devices_[device], *preparer_,
                                          std::move(products),
                                          std::move(context), std::move(done));
  for (const Product& product : task->products()) {
    NeedHomes(*task, device, product);
  }
  if (absl::Status why = task->Check("admission"); !why.ok()) {
    return task->GiveUp(why);
  }
  task->Start();
}

void Engine::RunInOrder(Sequence sequence, int device, RequestContext context,
                        Done<SequenceResult> done) {
  auto task = std::make_shared<SequenceTask>(
      *devices_[device], *preparer_, std::move(sequence), std::move(context),
      std::move(done));
  for (const Product& step : task->steps()) NeedHomes(*task, device, step);
  if (absl::Status why = task->Check("admission"); !why.ok()) {
    return task->GiveUp(why);
  }
  task->Start();
}

void Engine::Prepare(jit::Problem problem, int device, RequestContext context,
                     Done<Execution> done) {
  ServedDevice& served = *devices_[device];
  if (!problem.writes()) {
    Execution nothing;
    nothing.device = served.title;
    return done(std::move(nothing));
  }
  auto task = std::make_shared<PrepareTask<Execution>>(
      served, std::move(context), std::move(done));
  if (absl::Status why = task->Check("compilation"); !why.ok()) {
    return task->GiveUp(why);
  }
  preparer_->Prepare(*served.kernels, problem, /*substitute=*/false, task,
                     [task, &served](const Preparation& preparation) {
                       task->Finish(ToExecution(served, preparation));
                     });
}

void Engine::PrepareTogether(std::vector<jit::Problem> problems, int device,
                             RequestContext context,
                             Done<std::optional<Execution>> done) {
  ServedDevice& served = *devices_[device];
  auto task = std::make_shared<PrepareTask<std::optional<Execution>>>(
      served, std::move(context), std::move(done));
  if (absl::Status why = task->Check("compilation"); !why.ok()) {
    return task->GiveUp(why);
  }
  preparer_->PrepareGroup(*served.kernels, std::move(problems),
                          /*substitute=*/false, task,
                          [task, &served](const Preparation& preparation) {
                            if (preparation.prepared == nullptr)
                              return task->Finish(std::nullopt);
                            task->Finish(ToExecution(served, preparation));
                          });
}

void Engine::CreateTensor(TensorSpec spec, RequestContext context,
                          Done<std::shared_ptr<Tensor>> done) {
  auto reservation =
      ReserveTensor(devices_, *tensors_, spec.layout.device_bytes(),
                    spec.device, context.identity);
  if (!reservation.ok()) return done(reservation.status());
  ServedDevice& served = *devices_[reservation->device];
  Tensor::Identity identity = {.handle = TensorStore::NewHandle(),
                               .label = std::move(spec.label),
                               .device = reservation->device,
                               .ttl = spec.ttl,
                               .owner = context.identity,
                               .exclusive = context.is_principal,
                               .lifetime = spec.lifetime,
                               .connection = context.connection};
  auto task = std::make_shared<CreateTask>(
      served, *tensors_, spec.layout, std::move(identity),
      std::move(reservation->quota), std::move(context), std::move(done));
  served.transfers->Submit(std::move(task));
}

absl::StatusOr<std::vector<std::shared_ptr<Tensor>>> Engine::MakeTemporaries(
    absl::Span<const jit::MatrixLayout> layouts, int device,
    const std::string& identity, bool again) {
  RETURN_IF_ERROR(device_state(device));
  int64_t bytes = 0;
  for (const jit::MatrixLayout& layout : layouts) {
    bytes += layout.device_bytes();
  }
  ASSIGN_OR_RETURN(QuotaHold room,
                   tensors_->Reserve(device, bytes, identity, again));
  std::vector<std::shared_ptr<Tensor>> temporaries;
  for (const jit::MatrixLayout& layout : layouts) {
    temporaries.push_back(std::make_shared<Tensor>(
        Tensor::Identity{.device = device, .owner = identity}, layout,
        room.Split(layout.device_bytes())));
  }
  return temporaries;
}

absl::StatusOr<std::shared_ptr<TensorUpload>> Engine::BeginUpload(
    const std::shared_ptr<Tensor>& tensor, const std::string& identity) {
  const int device = tensor->identity().device;
  RETURN_IF_ERROR(device_state(device));
  std::optional<QuotaHold> room = tensor->TakeRoom();
  if (!room) {
    ASSIGN_OR_RETURN(
        room,
        tensors_->Reserve(device, tensor->layout().device_bytes(), identity));
  }
  auto upload = std::make_shared<TensorUpload>();
  upload->tensor = tensor;
  upload->device = device;
  upload->layout = tensor->layout();
  upload->uploads = tensor->uploads();
  upload->contents = tensor->Await(*std::move(room));
  return upload;
}

void Engine::Upload(std::shared_ptr<TensorUpload> upload,
                    device::HostMatrix from, device::LineRange lines,
                    RequestContext context, Done<std::monostate> done) {
  ServedDevice& served = *devices_[upload->device];
  std::make_shared<UploadTask>(served, std::move(upload), from, lines,
                               std::move(context), std::move(done))
      ->Start();
}

void Engine::FinishUpload(std::shared_ptr<TensorUpload> upload,
                          RequestContext context, Done<std::monostate> done) {
  ServedDevice& served = *devices_[upload->device];
  std::make_shared<FinishUploadTask>(served, std::move(upload),
                                     std::move(context), std::move(done))
      ->Start();
}

void Engine::Download(std::shared_ptr<Tensor> tensor, device::LineRange lines,
                      int64_t pitch_bytes, RequestContext context,
                      Done<TensorPart> done) {
  ServedDevice& served = *devices_[tensor->identity().device];
  std::make_shared<DownloadTask>(served, std::move(tensor), lines, pitch_bytes,
                                 device::RegionPlace(), std::move(context),
                                 std::move(done))
      ->Start();
}

void Engine::DownloadTo(device::RegionPlace to, std::shared_ptr<Tensor> tensor,
                        int64_t pitch_bytes, RequestContext context,
                        Done<TensorPart> done) {
  ServedDevice& served = *devices_[tensor->identity().device];
  const device::LineRange lines = {0, tensor->layout().lines()};
  std::make_shared<DownloadTask>(served, std::move(tensor), lines, pitch_bytes,
                                 std::move(to), std::move(context),
                                 std::move(done))
      ->Start();
}

}  // namespace gemmd::engine
