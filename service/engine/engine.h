// The daemon without its network: devices with their queues and kernels, and
// the resident tensors. Thread-safe.
//
// Every piece of work ends in a call of its `done`, exactly once, on a thread
// of the engine or, when it is refused at once, on the caller's.
#ifndef GEMMD_SERVICE_ENGINE_ENGINE_H_
#define GEMMD_SERVICE_ENGINE_ENGINE_H_

#include <cstdint>
#include <memory>
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
#include "service/engine/kernel_table.h"
#include "service/engine/periodic.h"
#include "service/engine/preparation.h"
#include "service/engine/product.h"
#include "service/engine/request_context.h"
#include "service/engine/tensor_store.h"
#include "service/engine/thread_pool.h"

namespace gemmd::engine {

template <typename T>
using Done = absl::AnyInvocable<void(absl::StatusOr<T>)>;

struct Execution {
  std::string device;  // "cuda:0 NVIDIA H100 80GB HBM3" or "host".
  std::string kernel;
  std::string cubin_key;
  KernelSource source = KernelSource::kNone;
  Phases phases;
};

struct ProductResult : Results {
  Execution execution;
};

struct TensorSpec {
  jit::MatrixLayout layout;  // Not empty.
  std::string label;
  absl::Duration ttl;
  int device = 0;
};

// Lines of a tensor and the number of writes that it had seen.
struct TensorPart {
  std::unique_ptr<device::HostBuffer> bytes;
  int64_t version = 0;
};

class Engine {
 public:
  struct Options {
    Executor::Options executor;  // Of each device.
    TensorStore::Options tensors;
    // Plans, compiles and loads run on these threads.
    int prepare_threads = 4;
    KernelTable::Options kernels;  // Of each device.
  };

  // `cache` and `templates` outlive the engine. There is at least one device.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(
      Options options, std::vector<std::unique_ptr<device::Device>> devices,
      jit::KernelCache& cache, const jit::TemplateLibrary& templates);
  // Finishes what runs; what waits gets UNAVAILABLE.
  ~Engine();

  int device_count() const { return static_cast<int>(places_.size()); }
  device::Device& device(int i) const { return *places_[i]->device; }
  KernelTable& kernels(int i) const { return *places_[i]->kernels; }
  jit::KernelCache& cache() const { return cache_; }
  TensorStore& tensors() { return tensors_; }

  // The device called `name`; "" is the least loaded one. INVALID_ARGUMENT
  // with the names that there are.
  absl::StatusOr<int> ChooseDevice(absl::string_view name) const;

  // Requests that wait, on all devices.
  int64_t waiting() const;

  // `product` is valid; the bytes of its inputs live until `done`.
  void Multiply(Product product, int device, RequestContext context,
                Done<ProductResult> done);
  // Does all of a product but the product. `problem` is valid.
  void Prepare(jit::Problem problem, int device, RequestContext context,
               Done<Execution> done);
  // Runs `work`, which may read disks, on a thread that compiles.
  template <typename T>
  void InBackground(absl::AnyInvocable<absl::StatusOr<T>()> work,
                    Done<T> done) {
    prepare_->Submit([work = std::move(work),
                      done = std::move(done)]() mutable { done(work()); });
  }
  // The elements are zero.
  void CreateTensor(TensorSpec spec, RequestContext context,
                    Done<std::shared_ptr<Tensor>> done);
  // `from` and its pieces live until `done`.
  void Upload(std::shared_ptr<Tensor> tensor, device::HostMatrix from,
              device::LineRange lines, RequestContext context,
              Done<std::monostate> done);
  void Download(std::shared_ptr<Tensor> tensor, device::LineRange lines,
                int64_t pitch_bytes, RequestContext context,
                Done<TensorPart> done);

 private:
  // A device with what belongs to it.
  struct Place {
    std::unique_ptr<device::Device> device;
    std::string title;
    std::unique_ptr<KernelTable> kernels;
    std::unique_ptr<Executor> executor;
  };
  struct Running;

  Engine(Options options, jit::KernelCache& cache);

  // Runs `work`, which returns absl::StatusOr<T>, on a lane of `place`.
  template <typename T, typename Work>
  static void OnLane(Place& place, RequestContext context, Work work,
                     Done<T> done);
  static void RunPrepared(std::unique_ptr<Running> running);
  // Prepares the problem's own kernel while a substitute serves it.
  void PrepareBehind(Place& place, const jit::Problem& problem);

  jit::KernelCache& cache_;
  std::vector<std::unique_ptr<Place>> places_;
  TensorStore tensors_;
  std::unique_ptr<ThreadPool> prepare_;
  Periodic expiry_;
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_ENGINE_H_
