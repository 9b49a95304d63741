// Independent products on their way: they get their kernels, their tensors and
// their turn, and run.
#ifndef GEMMD_SERVICE_ENGINE_GROUP_TASK_H_
#define GEMMD_SERVICE_ENGINE_GROUP_TASK_H_

#include <atomic>
#include <cstddef>
#include <vector>

#include "absl/time/time.h"
#include "service/engine/group.h"
#include "service/engine/lane_task.h"
#include "service/engine/once.h"
#include "service/engine/preparer.h"
#include "service/engine/product_task.h"
#include "service/engine/served_device.h"
#include "service/engine/tensor_locks.h"

namespace gemmd::engine {

// In the order of the products. Of those with one launch the phases are the
// same.
using GroupResult = std::vector<ProductResult>;

class GroupTask final : public LaneTask {
 public:
  // `served` and `preparer` outlive the task. The products AreIndependent.
  GroupTask(ServedDevice& served, Preparer& preparer,
            std::vector<Product> products, RequestContext context,
            Done<GroupResult> done);

  // Gets the kernels, one after the other, then takes a place in the device's
  // queue, waits for the tensors, and runs in its turn; or is given up. Once.
  const std::vector<Product>& products() const { return products_; }
  void Start() { PrepareFrom(0, Places::Entry::kIfFree); }

  bool Run(device::Lane& lane) override;
  void Abandon(const absl::Status& why) override;

 private:
  void Refuse(const absl::Status& why) override;
  void PrepareFrom(size_t first, Places::Entry entry);
  // What did not go together after all is launched one by one.
  void Split(size_t launch);
  void Queue(Places::Entry entry);
  GroupResult ToResult(std::vector<Results> results, const Phases& phases);

  ServedDevice& served_;
  Preparer& preparer_;
  const absl::Time admitted_;
  const bool may_abandon_;  // As of a product.
  std::vector<Product> products_;
  Once<GroupResult> done_;
  std::vector<GroupLaunch> launches_;
  // The product whose kernel is waited for; -1: none is.
  std::atomic<int> preparing_ = -1;
  TensorLocks locks_;
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_GROUP_TASK_H_
