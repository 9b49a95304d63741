// What is done with resident tensors besides multiplying: create, upload,
// download.
#ifndef GEMMD_SERVICE_ENGINE_TENSOR_TASKS_H_
#define GEMMD_SERVICE_ENGINE_TENSOR_TASKS_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>

#include "absl/time/time.h"
#include "service/engine/lane_task.h"
#include "service/engine/once.h"
#include "service/engine/served_device.h"
#include "service/engine/tensor_locks.h"
#include "service/engine/tensor_store.h"

namespace gemmd::engine {

// Lines of a tensor, unless they went to a region, and the number of writes
// that it had seen.
struct TensorPart {
  std::unique_ptr<device::HostBuffer> bytes;
  int64_t version = 0;
};

// New elements of a tensor on their way. They are gathered beside the old
// ones, which stay in use until the new ones are complete and take their place
// at once: readers see the one or the other, never a mix. Dropped unless it is
// finished, and with the tensor, however long a client is silent. Used by as
// many requests at a time as send different lines.
struct TensorUpload {
  ~TensorUpload() {
    if (const auto owner = tensor.lock()) owner->Forget(contents);
  }

  // Not kept: while the client is silent, the tensor may be deleted or expire.
  std::weak_ptr<Tensor> tensor;
  std::string name = "data";  // What errors call the elements.
  int device = 0;             // Of the tensor.
  jit::MatrixLayout layout;
  int64_t uploads = 0;  // That the tensor had seen when this one began.
  // Owned by the tensor. No matrix before the first part, which allocates it:
  // those that come at the same time wait for that.
  std::weak_ptr<Tensor::Contents> contents;
  std::mutex allocation;
};

// Allocates and clears, in several turns: a large tensor holds up nobody. Zeros
// of a sparse tensor have legal metadata, too.
class CreateTask final : public LaneTask {
 public:
  // `served` and `store` outlive the task.
  CreateTask(ServedDevice& served, TensorStore& store,
             const jit::MatrixLayout& layout, Tensor::Identity identity,
             QuotaHold quota, RequestContext context,
             Done<std::shared_ptr<Tensor>> done);

  bool Run(device::Lane& lane) override;
  void Abandon(const absl::Status& why) override { done_.Answer(why); }

 private:
  void Refuse(const absl::Status& why) override { done_.Answer(why); }
  // Whether lines remain that are not cleared.
  absl::StatusOr<bool> ClearSome(device::Lane& lane);

  ServedDevice& served_;
  TensorStore& store_;
  const jit::MatrixLayout layout_;
  Tensor::Identity identity_;
  Tensor::Contents contents_;
  int64_t cleared_lines_ = 0;
  Once<std::shared_ptr<Tensor>> done_;
};

class UploadTask final : public LaneTask {
 public:
  UploadTask(ServedDevice& served, std::shared_ptr<TensorUpload> upload,
             device::HostMatrix from, device::LineRange lines,
             RequestContext context, Done<std::monostate> done);

  void Start();
  bool Run(device::Lane& lane) override;
  // The bytes live only until the answer, and the lane may still read them.
  void Abandon(const absl::Status&) override {}

 private:
  void Refuse(const absl::Status& why) override { done_.Answer(why); }
  absl::Status Send(device::Lane& lane);
  // The matrix of the new elements, on every lane.
  absl::StatusOr<device::Matrix*> Allocated(device::Lane& lane);

  ServedDevice& served_;
  std::shared_ptr<TensorUpload> upload_;
  std::shared_ptr<Tensor> tensor_;  // Null: it is gone.
  const device::HostMatrix from_;
  const device::LineRange lines_;
  Once<std::monostate> done_;
};

// Puts complete elements in place of the old ones. That needs no lane: only who
// had to wait for the tensor takes a turn on one.
class FinishUploadTask final : public LaneTask {
 public:
  FinishUploadTask(ServedDevice& served, std::shared_ptr<TensorUpload> upload,
                   RequestContext context, Done<std::monostate> done);

  void Start();
  bool Run(device::Lane& lane) override;
  void Abandon(const absl::Status& why) override { done_.Answer(why); }

 private:
  void Swap();
  void Refuse(const absl::Status& why) override;

  ServedDevice& served_;
  std::shared_ptr<TensorUpload> upload_;
  std::shared_ptr<Tensor> tensor_;  // Null: it is gone.
  Once<std::monostate> done_;
  TensorLocks locks_;
};

class DownloadTask final : public LaneTask {
 public:
  // Where `to` is in a region, `lines` are whole ones and go there in several
  // turns: large ones hold up nobody.
  DownloadTask(ServedDevice& served, std::shared_ptr<Tensor> tensor,
               device::LineRange lines, int64_t pitch_bytes,
               device::RegionPlace to, RequestContext context,
               Done<TensorPart> done);

  void Start();
  bool Run(device::Lane& lane) override;
  // Who asked may use his memory for something else after the answer.
  void Abandon(const absl::Status& why) override {
    if (to_.region == nullptr) done_.Answer(why);
  }

 private:
  void Refuse(const absl::Status& why) override;
  // Whether lines remain.
  absl::StatusOr<bool> WriteSome(device::Lane& lane);

  ServedDevice& served_;
  std::shared_ptr<Tensor> tensor_;
  const device::LineRange lines_;
  const int64_t pitch_bytes_;
  const device::RegionPlace to_;
  int64_t written_ = 0;  // Lines, to the region.
  Once<TensorPart> done_;
  TensorLocks locks_;
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_TENSOR_TASKS_H_
