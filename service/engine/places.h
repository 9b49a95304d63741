// Bounded places to wait in, shared by identities: when all are taken, a
// request of one who has few takes the place of the newest request of the one
// who has most. So nobody is refused for lack of what another one hoards.
// Thread-safe.
#ifndef GEMMD_SERVICE_ENGINE_PLACES_H_
#define GEMMD_SERVICE_ENGINE_PLACES_H_

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace gemmd::engine {

class Waiter;

class Places {
 private:
  struct Line;
  using Waiters = std::list<std::shared_ptr<Waiter>>;

 public:
  // `where` and `step` are for error texts: "device cuda:0", "execution".
  Places(std::string where, std::string step, int64_t limit)
      : where_(std::move(where)), step_(std::move(step)), limit_(limit) {}
  // Gives up who still waits.
  ~Places();

  // One that is taken. Destroying it gives it back.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept { *this = std::move(other); }
    Place& operator=(Place&& other) noexcept;
    ~Place() { GiveBack(); }

   private:
    friend class Places;
    void GiveBack();

    Places* places_ = nullptr;
    Line* line_ = nullptr;
    Waiters::iterator at_;
    int64_t cost_ = 0;
  };

  enum class Entry {
    kIfFree,
    kAlways,  // For one who was admitted to another place before.
  };

  // A place for `waiter`. When that is another one's, `displaced` is who had
  // it, for the caller to give up. A TryAgainError with the limit.
  absl::StatusOr<Place> Take(std::shared_ptr<Waiter> waiter, Entry entry,
                             std::shared_ptr<Waiter>& displaced);
  // What a displaced waiter is told.
  absl::Status Displaced() const;

  // Gives up those for whom nobody waits any more, or whose device failed.
  void Sweep();
  void GiveUpAll(const absl::Status& why);

  int64_t taken() const;
  int64_t taken_by(const std::string& identity) const;
  int64_t limit() const { return limit_; }
  // Requests that got no place, or lost theirs to another identity's.
  int64_t refused() const;
  // Of all who wait here.
  int64_t cost() const;

 private:
  // Who waits of one identity, oldest first; not empty.
  struct Line {
    const std::string* identity;
    Waiters waiters;
  };

  // The predicted time of a quarter of what waits here.
  absl::Duration QuarterDone() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Line* Longest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string where_;
  const std::string step_;
  const int64_t limit_;

  mutable std::mutex mutex_;
  std::unordered_map<std::string, Line> lines_ ABSL_GUARDED_BY(mutex_);
  int64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t cost_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_PLACES_H_
