// The resident tensors of a daemon by handle. Thread-safe.
#ifndef GEMMD_SERVICE_ENGINE_TENSOR_STORE_H_
#define GEMMD_SERVICE_ENGINE_TENSOR_STORE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/engine/tensor.h"

namespace gemmd::engine {

class TensorStore {
 public:
  struct Options {
    // Device bytes of all tensors together, deleted ones that a product still
    // uses included.
    int64_t max_bytes = 0;
    int64_t max_tensors = 65536;
  };

  explicit TensorStore(Options options) : options_(options) {}

  // RESOURCE_EXHAUSTED with the limit. Makes room by dropping the forms of all
  // tensors, which can be derived again.
  absl::StatusOr<QuotaHold> Reserve(int64_t bytes);
  // For what can be done without: makes no room.
  absl::StatusOr<QuotaHold> ReserveSpare(int64_t bytes);
  // A name that cannot be guessed: 128 random bits, 32 hexadecimal digits.
  static std::string NewHandle();

  absl::Status Insert(std::shared_ptr<Tensor> tensor);
  // NOT_FOUND. The tensor counts as used.
  absl::StatusOr<std::shared_ptr<Tensor>> Find(const std::string& handle);
  absl::Status Delete(const std::string& handle);
  // Drops tensors that have been idle for their time to live.
  void Expire();

  std::vector<std::shared_ptr<Tensor>> List() const;
  int64_t bytes() const { return *used_bytes_; }
  int64_t count() const;

 private:
  const Options options_;
  const std::shared_ptr<std::atomic<int64_t>> used_bytes_ =
      std::make_shared<std::atomic<int64_t>>(0);

  mutable std::mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<Tensor>> tensors_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_TENSOR_STORE_H_
