#include "service/rpc/health_state.h"

#include "service/rpc/health_watch.h"

namespace gemmd::rpc {

void Health::SetServing(bool serving) { Change(serving_, serving); }

void Health::BeginShutdown() { Change(shutting_down_, true); }

void Health::Change(std::atomic<bool>& what, bool to) {
  if (what.exchange(to) == to) return;
  std::lock_guard lock(mutex_);
  for (HealthWatch* watch : watches_) watch->Wake();
}

}  // namespace gemmd::rpc
