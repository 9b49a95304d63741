// A matrix resident on a device. Who uses it when is decided by TensorLocks.
#ifndef GEMMD_SERVICE_ENGINE_TENSOR_H_
#define GEMMD_SERVICE_ENGINE_TENSOR_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "service/device/device.h"
#include "service/engine/kept_forms.h"

namespace gemmd::engine {

// Bytes of a shared limit, and of one's share of it, given back when destroyed.
class QuotaHold {
 public:
  using Counter = std::shared_ptr<std::atomic<int64_t>>;

  QuotaHold() = default;
  // Counted in both; `share` may be null.
  QuotaHold(Counter used, Counter share, int64_t bytes)
      : used_(std::move(used)), share_(std::move(share)), bytes_(bytes) {}
  QuotaHold(QuotaHold&& other) noexcept = default;
  QuotaHold& operator=(QuotaHold&& other) noexcept {
    std::swap(used_, other.used_);
    std::swap(share_, other.share_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  // Of these bytes, so many in a hold of their own.
  QuotaHold Split(int64_t bytes) {
    bytes_ -= bytes;
    return QuotaHold(used_, share_, bytes);
  }
  ~QuotaHold() {
    if (used_ != nullptr) *used_ -= bytes_;
    if (share_ != nullptr) *share_ -= bytes_;
  }

 private:
  Counter used_;
  Counter share_;
  int64_t bytes_ = 0;
};

class TensorLocks;

// How long a tensor lives beyond its last use.
enum class Lifetime {
  kTtl,         // For its time to live.
  kConnection,  // That too, but not beyond the connection that created it.
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
    std::string owner;       // Identity of who created it.
    bool exclusive = false;  // Nobody but the owner uses it.
    Lifetime lifetime = Lifetime::kTtl;
    std::string connection;  // That it was created by.
  };
  // Elements on the device, and what they count for. The quota is given back
  // after the memory.
  struct Contents {
    Contents() = default;
    Contents(QuotaHold quota, std::unique_ptr<device::Matrix> matrix)
        : quota(std::move(quota)), matrix(std::move(matrix)) {}

    QuotaHold quota;
    std::unique_ptr<device::Matrix> matrix;
  };
  // Who uses it and who waits to, in order. Guarded by the LockTable.
  struct Users {
    int readers = 0;
    bool writer = false;
    std::list<TensorLocks*> line;
  };

  Tensor(Identity identity, Contents contents)
      : identity_(std::move(identity)),
        layout_(contents.matrix->layout()),
        contents_(std::move(contents)),
        last_use_(Clock::now()) {}
  // Without elements: nobody reads it before the first upload, or the first
  // product that writes it, has brought them. They will count for `room`.
  Tensor(Identity identity, const jit::MatrixLayout& layout, QuotaHold room)
      : identity_(std::move(identity)),
        layout_(layout),
        last_use_(Clock::now()),
        room_(std::move(room)) {}

  const Identity& identity() const { return identity_; }
  bool MayBeUsedBy(const std::string& asker) const {
    return !identity_.exclusive || identity_.owner == asker;
  }
  const jit::MatrixLayout& layout() const { return layout_; }

  // Counts writes that have ended, of whatever kind.
  int64_t version() const { return version_; }
  // Uploads that were finished.
  int64_t uploads() const { return uploads_; }

  // What the first elements of a tensor without any count for: for the one who
  // brings them.
  std::optional<QuotaHold> TakeRoom() {
    std::lock_guard lock(incoming_mutex_);
    return std::exchange(room_, std::nullopt);
  }

  // Elements on their way in, which the tensor owns until they are forgotten.
  std::shared_ptr<Contents> Await(QuotaHold quota) {
    auto contents = std::make_shared<Contents>(std::move(quota), nullptr);
    std::lock_guard lock(incoming_mutex_);
    incoming_.push_back(contents);
    return contents;
  }
  void Forget(const std::weak_ptr<Contents>& contents) {
    const std::shared_ptr<Contents> gone = contents.lock();
    std::lock_guard lock(incoming_mutex_);
    std::erase(incoming_, gone);
  }

  // What products on `device` derived from it; forgotten when it is written.
  KeptForms& forms(int device) {
    std::lock_guard lock(forms_mutex_);
    return forms_[device];
  }
  // Of one device, or of all.
  void ForgetForms(std::optional<int> device = std::nullopt) {
    std::vector<KeptForms*> some;  // They stay where they are.
    {
      std::lock_guard lock(forms_mutex_);
      for (auto& [of, forms] : forms_) {
        if (!device || of == *device) some.push_back(&forms);
      }
    }
    for (KeptForms* forms : some) forms->Clear();
  }

  // It lasts (TensorStore::Keep) and counts for `lasting`. Before it is shared.
  void SetLasting(QuotaHold lasting) { lasting_ = std::move(lasting); }

  // Marks a use: the time to live starts anew.
  void Touch() { last_use_ = Clock::now(); }
  absl::Duration idle() const {
    return absl::FromChrono(Clock::now() - last_use_.load());
  }

 private:
  friend class TensorLocks;
  // Nobody sets this clock: a step of the time of day expires no tensor.
  using Clock = std::chrono::steady_clock;

  const Identity identity_;
  const jit::MatrixLayout layout_;
  // Read and written by those who hold a lock.
  Contents contents_;
  // So that a transfer in parts notices a write in between. Grows while a lock
  // for writing is held.
  std::atomic<int64_t> version_ = 0;
  bool changes_ = false;  // By who holds it for writing: a version is due.
  Users users_;
  std::atomic<int64_t> uploads_ = 0;
  std::atomic<Clock::time_point> last_use_;
  std::mutex forms_mutex_;
  std::map<int, KeptForms> forms_ ABSL_GUARDED_BY(forms_mutex_);
  std::mutex incoming_mutex_;
  std::vector<std::shared_ptr<Contents>> incoming_
      ABSL_GUARDED_BY(incoming_mutex_);
  std::optional<QuotaHold> room_ ABSL_GUARDED_BY(incoming_mutex_);
  QuotaHold lasting_;
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_TENSOR_H_
