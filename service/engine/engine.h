// The daemon without its network: devices with their queues and kernels, and
// the resident tensors. Thread-safe.
//
// Every piece of work ends in a call of its `done`, exactly once, on a thread
// of the engine or, when it is refused at once, on the caller's. A request that
// waits, for whatever it may be, ends as soon as its deadline has passed, its
// client is gone, or its device has failed; never on a lane.
#ifndef GEMMD_SERVICE_ENGINE_ENGINE_H_
#define GEMMD_SERVICE_ENGINE_ENGINE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "jit/cache/kernel_cache.h"
#include "jit/source/template_library.h"
#include "service/device/device.h"
#include "service/engine/executor.h"
#include "service/engine/group_task.h"
#include "service/engine/kernel_table.h"
#include "service/engine/once.h"
#include "service/engine/periodic.h"
#include "service/engine/preparer.h"
#include "service/engine/product.h"
#include "service/engine/product_task.h"
#include "service/engine/request_context.h"
#include "service/engine/sequence_task.h"
#include "service/engine/served_device.h"
#include "service/engine/tensor_store.h"
#include "service/engine/tensor_tasks.h"
#include "service/engine/thread_pool.h"
#include "service/engine/tuner.h"

namespace gemmd::engine {

struct TensorSpec {
  jit::MatrixLayout layout;  // Not empty.
  std::string label;
  absl::Duration ttl;
  Lifetime lifetime = Lifetime::kTtl;
  std::optional<int> device;  // Nothing: where most of the quota is left.
};

class Engine {
 public:
  struct Options {
    Executor::Options executor;  // Of each device: for products, and again for
                                 // transfers.
    TensorStore::Options tensors;
    KernelTable::Options kernels;  // Of each device.
    Preparer::Options preparer;
    Tuner::Options tuner;
    // What tuners find out, for requests too; outlives the engine. Null:
    // nothing is tuned.
    jit::TuningTable* tuning = nullptr;
  };

  // `cache` and `templates` outlive the engine. There is at least one device.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(
      Options options, std::vector<std::unique_ptr<device::Device>> devices,
      jit::KernelCache& cache, const jit::TemplateLibrary& templates);
  // Finishes what runs, for ever where a device hangs; what waits gets
  // UNAVAILABLE.
  ~Engine();

  int device_count() const { return static_cast<int>(devices_.size()); }
  device::Device& device(int i) const { return *devices_[i]->device; }
  KernelTable& kernels(int i) const { return *devices_[i]->kernels; }
  const ServedDevice& served(int i) const { return *devices_[i]; }
  jit::KernelCache& cache() const { return cache_; }
  TensorStore& tensors() { return *tensors_; }
  const Preparer& preparer() const { return *preparer_; }

  // OK, or UNAVAILABLE with the reason for which the device has failed. Then
  // nothing is placed on it, and all that it has ends with this status.
  absl::Status device_state(int i) const { return devices_[i]->health.Check(); }
  // Does real work on the device and says whether it serves: one that has
  // failed fails every probe.
  absl::Status Probe(int i);
  // For those who find out otherwise, by a probe that hangs. For good: no later
  // success revives a device.
  void MarkFailed(int i, absl::string_view reason);

  // The device called `name`; "" is the one with the least predicted work.
  // INVALID_ARGUMENT with the names that there are; UNAVAILABLE when it, or all
  // of them, have failed.
  absl::StatusOr<int> ChooseDevice(absl::string_view name) const;
  // For work that reads `tensors` and is bound to none: NearestTo, or
  // LeastLoaded when there are none.
  absl::StatusOr<int> ChooseDevice(
      absl::Span<const std::shared_ptr<Tensor>> tensors) const;

  // Requests that wait: for a kernel, for tensors, or for their turn.
  int64_t waiting() const;
  int64_t waiting_of(const std::string& identity) const;

  // `product` is valid, and writes no tensor of another device; those that it
  // reads are copied. Unless it owns the bytes of its inputs, they live
  // until `done`.
  void Multiply(Product product, int device, RequestContext context,
                Done<ProductResult> done);
  // The same for products that AreIndependent, in their order.
  void MultiplyTogether(std::vector<Product> products, int device,
                        RequestContext context, Done<GroupResult> done);
  // `sequence` is valid; the bytes of its operands live until `done`.
  void RunInOrder(Sequence sequence, int device, RequestContext context,
                  Done<SequenceResult> done);
  // Does all of a product but the product. `problem` is valid.
  void Prepare(jit::Problem problem, int device, RequestContext context,
               Done<Execution> done);
  // The same of `problems`, which go together (jit::GroupLaunches), by one
  // launch. Nothing is prepared where they are predicted to be faster apart.
  void PrepareTogether(std::vector<jit::Problem> problems, int device,
                       RequestContext context,
                       Done<std::optional<Execution>> done);
  // Finds out how the problem of `order` runs best, which is how it then runs.
  // The problem is valid.
  void Tune(TuningOrder order, int device, RequestContext context,
            Done<TuningOutcome> done) {
    tuner_->Tune(std::move(order), device, std::move(context), std::move(done));
  }
  const Tuner& tuner() const { return *tuner_; }
  // Runs `work`, which may read disks or take long, on a thread for such, of
  // which each identity gets its share.
  template <typename T>
  void InBackground(const std::string& identity,
                    absl::AnyInvocable<absl::StatusOr<T>()> work,
                    Done<T> done) {
    background_.Submit(
        identity, [work = std::move(work), done = std::move(done)]() mutable {
          done(work());
        });
  }

  // The elements are zero. The tensor belongs to the identity of `context`.
  void CreateTensor(TensorSpec spec, RequestContext context,
                    Done<std::shared_ptr<Tensor>> done);
  // Tensors of one request, which nobody else can name, without elements until
  // an upload or a product brings them. All or none; they count for `identity`.
  // RESOURCE_EXHAUSTED when the quota has no room for them; `again` as in
  // TensorStore::Reserve.
  absl::StatusOr<std::vector<std::shared_ptr<Tensor>>> MakeTemporaries(
      absl::Span<const jit::MatrixLayout> layouts, int device,
      const std::string& identity, bool again = false);
  // New elements for `tensor`, all of which are to be sent in Uploads before
  // FinishUpload; at the same time only different lines. They count for
  // `identity`.
  // RESOURCE_EXHAUSTED when the quota has no room for them beside the old ones.
  absl::StatusOr<std::shared_ptr<TensorUpload>> BeginUpload(
      const std::shared_ptr<Tensor>& tensor, const std::string& identity = "");
  // NOT_FOUND when the tensor is gone. `from` and its pieces live until `done`.
  void Upload(std::shared_ptr<TensorUpload> upload, device::HostMatrix from,
              device::LineRange lines, RequestContext context,
              Done<std::monostate> done);
  // Puts them in place of the old ones. ABORTED when another upload that began
  // before this one was finished came first.
  void FinishUpload(std::shared_ptr<TensorUpload> upload,
                    RequestContext context, Done<std::monostate> done);
  void Download(std::shared_ptr<Tensor> tensor, device::LineRange lines,
                int64_t pitch_bytes, RequestContext context,
                Done<TensorPart> done);
  // All lines, to a region, which has room for them.
  void DownloadTo(device::RegionPlace to, std::shared_ptr<Tensor> tensor,
                  int64_t pitch_bytes, RequestContext context,
                  Done<TensorPart> done);

 private:
  Engine(Options options, jit::KernelCache& cache);

  void Sweep();
  // `task`, on `device`, reads what `product` does.
  void NeedHomes(Waiter& task, int device, const Product& product) const;

  jit::KernelCache& cache_;
  LockTable locks_;
  std::vector<std::unique_ptr<ServedDevice>> devices_;
  std::unique_ptr<TensorStore> tensors_;
  ThreadPool background_;
  std::unique_ptr<Preparer> preparer_;
  std::unique_ptr<Tuner> tuner_;
  // Null until everything that they look at is there.
  std::unique_ptr<Periodic> sweep_;
  std::unique_ptr<Periodic> expiry_;
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_ENGINE_H_
