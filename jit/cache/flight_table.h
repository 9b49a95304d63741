// Flights: work under way that any number of callers wait for, one per key.
#ifndef GEMMD_JIT_CACHE_FLIGHT_TABLE_H_
#define GEMMD_JIT_CACHE_FLIGHT_TABLE_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "jit/cache/kernel_cache.h"

namespace gemmd::jit {

// Thread-safe.
class Flight {
 public:
  // The result, or DEADLINE_EXCEEDED; the flight goes on. So it does after
  // ABORTED, which only `unless_elsewhere` brings, while it is elsewhere.
  absl::StatusOr<CacheResult> Wait(absl::Time deadline,
                                   bool unless_elsewhere = false);

  // Whether another process does the work.
  void SetElsewhere(bool elsewhere);

 private:
  friend class FlightTable;

  std::mutex mutex_;
  std::condition_variable change_;
  bool elsewhere_ ABSL_GUARDED_BY(mutex_) = false;
  bool landed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::StatusOr<CacheResult> result_ ABSL_GUARDED_BY(mutex_);
};

// Thread-safe.
class FlightTable {
 public:
  // The flight of `key`, and whether the caller started it and so has to make
  // it land.
  std::pair<std::shared_ptr<Flight>, bool> Join(const std::string& key);

  // Who joins afterwards starts another flight, so what the flight brought
  // must be where they look first.
  void Land(const std::string& key, absl::StatusOr<CacheResult> result);

 private:
  std::mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<Flight>> flights_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_FLIGHT_TABLE_H_
