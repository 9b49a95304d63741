// The resident tensors of a daemon by handle. Thread-safe.
#ifndef GEMMD_SERVICE_ENGINE_TENSOR_STORE_H_
#define GEMMD_SERVICE_ENGINE_TENSOR_STORE_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/engine/tensor.h"

namespace gemmd::engine {

class TensorStore {
 public:
  struct Options {
    // Bytes of the tensors of one device, with those of uploads that are not
    // finished and of deleted tensors that a product still uses. 0: three
    // quarters of the device's memory.
    int64_t max_bytes = 0;
    // Of these, what one identity has created and is uploading. 0: three
    // quarters, so that no single one holds all.
    int64_t max_bytes_of_one = 0;
    // Three quarters of which one identity may have created.
    int64_t max_tensors = 65536;
  };

  // What one identity may have instead; 0: the limits of everybody.
  struct Grant {
    int64_t max_bytes = 0;  // Of each device.
    int64_t max_tensors = 0;
  };

  // `memory_bytes` of each device.
  TensorStore(Options options, const std::vector<int64_t>& memory_bytes);

  // For `identity`; "" is nobody in particular, whose share is all.
  // RESOURCE_EXHAUSTED with the limit. Makes room by dropping the forms of all
  // tensors of the device, unless it is the identity that has too much, or that
  // would not be enough.
  // Who asks `again` was counted among those that were refused before.
  absl::StatusOr<QuotaHold> Reserve(int device, int64_t bytes,
                                    const std::string& identity = "",
                                    bool again = false);
  // For what can be done without: makes no room.
  absl::StatusOr<QuotaHold> ReserveSpare(int device, int64_t bytes);
  // A name that cannot be guessed: 128 random bits, 32 hexadecimal digits.
  static std::string NewHandle();

  // The tensor lasts: see Keep.
  absl::Status Insert(std::shared_ptr<Tensor> tensor);
  // `tensor`, which only its owner knows yet, lasts: its bytes come back when
  // somebody deletes it, and not, as others do, when a request ends.
  void Keep(Tensor& tensor);
  // NOT_FOUND, also for what `asker` may not use. The tensor counts as used.
  absl::StatusOr<std::shared_ptr<Tensor>> Find(const std::string& handle,
                                               const std::string& asker = "");
  // NOT_FOUND, also for what `asker` may not use, unless he `administers`: what
  // others left must be somebody's to delete.
  absl::Status Delete(const std::string& handle, const std::string& asker = "",
                      bool administers = false);
  // Drops tensors that have been idle for their time to live.
  void Expire();
  // Drops those that live no longer than `connection`.
  void Disconnect(const std::string& connection);

  // Drops all.
  void Clear();

  // From now on these are granted, by identity, and no others.
  void SetGrants(absl::flat_hash_map<std::string, Grant> grants);

  // The first `most` behind the handle `after`, in the order of handles.
  using Tensors = std::vector<std::shared_ptr<Tensor>>;
  static constexpr size_t kAll = std::numeric_limits<size_t>::max();
  Tensors List(const std::string& after = "", size_t most = kAll) const;
  // Of those that `owner` created.
  Tensors ListOf(const std::string& owner, const std::string& after = "",
                 size_t most = kAll) const;
  // Of all devices together.
  int64_t bytes() const;
  int64_t max_bytes() const;
  // Of one device.
  int64_t bytes(int device) const { return *quotas_[device].used_bytes; }
  int64_t max_bytes(int device) const { return quotas_[device].max_bytes; }
  // Tensors and uploads that got no room, or no place.
  int64_t refused() const { return refusals_; }
  // What is left of the quota of a device for `identity`.
  int64_t free_bytes(int device, const std::string& identity = "") const;
  // The same as if it had the device for itself.
  int64_t own_free_bytes(int device, const std::string& identity) const;
  // The most that it may ever have there.
  int64_t max_bytes_of_one(int device, const std::string& identity) const;
  // The most that anybody may have there while what lasts stays.
  int64_t attainable_bytes(int device) const;
  int64_t count() const;
  // Of what `owner` created: tensors, and bytes of all devices together with
  // those of uploads.
  struct Use {
    int64_t tensors = 0;
    int64_t bytes = 0;
  };
  Use UseOf(const std::string& owner) const;
  // Whether somebody has just been refused for want of room: who holds some
  // without using it is to hurry.
  bool contended() const;

 private:
  using Clock = std::chrono::steady_clock;  // Nobody sets it.
  struct Quota {
    int64_t max_bytes;
    int64_t max_bytes_of_one;
    QuotaHold::Counter used_bytes;
    QuotaHold::Counter spare_bytes;    // Of these, what can be done without,
    QuotaHold::Counter lasting_bytes;  // and those of tensors that last.
  };
  struct Share {
    QuotaHold::Counter used_bytes;  // Null: of nobody in particular.
    int64_t max_bytes = 0;
  };
  struct Owned {
    absl::btree_set<std::string> tensors;        // Their handles.
    std::vector<QuotaHold::Counter> used_bytes;  // By device.
  };

  // What `identity` uses of `device`, and may use.
  Share ShareOf(int device, const std::string& identity);
  Grant GrantOf(const std::string& identity) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<QuotaHold> Take(int device, int64_t bytes, const Share& share);
  // After it has been dropped.
  void Uncount(const Tensor& tensor) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of the device: they can be derived again.
  void DropForms(int device);

  // Drops the tensors of which `condition` is true.
  template <typename Condition>
  void DropIf(Condition condition);

  const int64_t max_tensors_;
  std::vector<Quota> quotas_;  // By device.

  mutable std::mutex mutex_;
  absl::btree_map<std::string, std::shared_ptr<Tensor>> tensors_
      ABSL_GUARDED_BY(mutex_);
  // By identity; those that have come to own nothing are removed in time.
  absl::flat_hash_map<std::string, Owned> owned_ ABSL_GUARDED_BY(mutex_);
  // Handles of what ends with a connection, by that: most have none, and their
  // ends are not to cost a look at all tensors.
  absl::flat_hash_map<std::string, absl::flat_hash_set<std::string>> bound_
      ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Grant> grants_ ABSL_GUARDED_BY(mutex_);
  size_t prune_at_ ABSL_GUARDED_BY(mutex_) = 64;
  std::atomic<int64_t> refusals_ = 0;
  std::atomic<Clock::time_point> refused_ =
      Clock::now() - std::chrono::hours(1);
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_TENSOR_STORE_H_
