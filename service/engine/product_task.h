// A product on its way: it gets a kernel, its tensors and its turn, and runs.
#ifndef GEMMD_SERVICE_ENGINE_PRODUCT_TASK_H_
#define GEMMD_SERVICE_ENGINE_PRODUCT_TASK_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "service/engine/lane_task.h"
#include "service/engine/once.h"
#include "service/engine/preparer.h"
#include "service/engine/product.h"
#include "service/engine/served_device.h"
#include "service/engine/tensor_locks.h"

namespace gemmd::engine {

struct Execution {
  std::string device;  // "cuda:0 NVIDIA H100 80GB HBM3" or "host".
  std::string kernel;
  std::string cubin_key;
  KernelSource source = KernelSource::kNone;
  device::SumArithmetic arithmetic = device::SumArithmetic::kNone;
  int splits = 0;  // Parts of k; 0 when nothing is multiplied.
  Paths paths;
  Phases phases;
};

// What is known before the product runs.
Execution ToExecution(const ServedDevice& served,
                      const Preparation& preparation);

struct ProductResult : Results {
  Execution execution;
};

class ProductTask final : public LaneTask {
 public:
  // `served` outlives the task.
  ProductTask(ServedDevice& served, Product product, RequestContext context,
              Done<ProductResult> done);

  const Product& product() const { return product_; }

  // Takes a place in the device's queue, waits for the tensors, and runs in
  // its turn; or is given up. Called once, when the kernel is there.
  void Queue(Preparation preparation, Places::Entry entry);

  bool Run(device::Lane& lane) override;
  void Abandon(const absl::Status& why) override;

 private:
  void Refuse(const absl::Status& why) override;
  absl::StatusOr<Results> CheckAndRun(device::Lane& lane, Phases& phases);

  ServedDevice& served_;
  const absl::Time admitted_;
  const bool may_abandon_;  // MayBeAbandoned.
  Product product_;
  Once<ProductResult> done_;
  Preparation preparation_;
  TensorLocks locks_;
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_PRODUCT_TASK_H_
