// What grpc.health.v1 reports. Thread-safe.
#ifndef GEMMD_SERVICE_RPC_HEALTH_STATE_H_
#define GEMMD_SERVICE_RPC_HEALTH_STATE_H_

#include <atomic>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace gemmd::rpc {

class HealthWatch;

class Health {
 public:
  bool serving() const { return serving_; }
  // Calls that would last for ever end: the server refuses new ones.
  bool shutting_down() const { return shutting_down_; }

  // Both tell the watches of a change.
  void SetServing(bool serving);
  void BeginShutdown();

 private:
  friend class HealthWatch;

  void Change(std::atomic<bool>& what, bool to);

  std::atomic<bool> serving_ = false;
  std::atomic<bool> shutting_down_ = false;
  std::mutex mutex_;  // Taken before that of a watch.
  absl::flat_hash_set<HealthWatch*> watches_ ABSL_GUARDED_BY(mutex_);
  // Watches of each connection that has any.
  absl::flat_hash_map<std::string, int> counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_HEALTH_STATE_H_
