// A matrix resident on a device, and the order in which products use it.
#ifndef GEMMD_SERVICE_ENGINE_TENSOR_H_
#define GEMMD_SERVICE_ENGINE_TENSOR_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/device/device.h"
#include "service/engine/kept_forms.h"

namespace gemmd::engine {

// Bytes of a shared limit, given back when destroyed.
class QuotaHold {
 public:
  QuotaHold(std::shared_ptr<std::atomic<int64_t>> used, int64_t bytes)
      : used_(std::move(used)), bytes_(bytes) {}
  QuotaHold(QuotaHold&& other) noexcept = default;
  QuotaHold& operator=(QuotaHold&&) = delete;
  ~QuotaHold() {
    if (used_ != nullptr) *used_ -= bytes_;
  }

 private:
  std::shared_ptr<std::atomic<int64_t>> used_;
  const int64_t bytes_;
};

// Shared by the store and by every request that uses it, so that deleting a
// tensor never takes it from under a product. Thread-safe.
class Tensor {
 public:
  struct Identity {
    std::string handle;
    std::string label;
    int device = 0;  // Index in the engine.
    absl::Duration ttl;
  };

  Tensor(Identity identity, std::unique_ptr<device::Matrix> matrix,
         QuotaHold quota);

  const Identity& identity() const { return identity_; }
  const jit::MatrixLayout& layout() const { return matrix_->layout(); }

  // Those that products derived from it; forgotten when it is written.
  KeptForms& forms() { return forms_; }

  // Marks a use: the time to live starts anew.
  void Touch();
  absl::Duration idle() const;

 private:
  friend class TensorLocks;
  // Nobody sets this clock: a step of the time of day expires no tensor.
  using Clock = std::chrono::steady_clock;

  const Identity identity_;
  const QuotaHold quota_;
  const std::unique_ptr<device::Matrix> matrix_;
  std::atomic<Clock::time_point> last_use_;
  // Held from before the first to after the last use by a device. Threads
  // that lock several tensors do so in the order of their addresses.
  std::shared_timed_mutex mutex_;
  // Counts writes, so that a transfer in parts notices one in between.
  int64_t version_ ABSL_GUARDED_BY(mutex_) = 0;
  KeptForms forms_;
};

// The tensors that one piece of device work uses, locked for its duration.
class TensorLocks {
 public:
  // Waits at most until `deadline`: DEADLINE_EXCEEDED. Null pointers are
  // skipped; `written` excludes every other user and may be among `read`.
  static absl::StatusOr<TensorLocks> Acquire(
      std::vector<std::shared_ptr<Tensor>> read,
      std::shared_ptr<Tensor> written, absl::Time deadline);
  TensorLocks(TensorLocks&&) = default;
  TensorLocks& operator=(TensorLocks&&) = delete;
  ~TensorLocks();

  // Of a locked tensor.
  static device::Matrix& matrix(Tensor& tensor) { return *tensor.matrix_; }
  static int64_t version(const Tensor& tensor) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return tensor.version_;
  }

 private:
  struct Held {
    std::shared_ptr<Tensor> tensor;
    bool exclusive;
  };

  TensorLocks() = default;

  std::vector<Held> held_;
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_TENSOR_H_
