#include "service/rpc/methods.h"

namespace gemmd::rpc {
namespace {

void ToWire(const jit::TierStatistics& tier, v1::TierStatistics& to) {
  to.set_name(tier.name);
  to.set_hits(tier.hits);
  to.set_misses(tier.misses);
  to.set_errors(tier.errors);
  to.set_bytes_loaded(tier.bytes_loaded);
  to.set_bytes_stored(tier.bytes_stored);
  to.set_load_us(tier.load_us);
}

}  // namespace

Async<absl::StatusOr<v1::Statistics>> GetStatistics(
    Runtime& runtime, Call&, const v1::GetStatisticsRequest&) {
  engine::Engine& engine = runtime.engine;
  v1::Statistics out;
  out.set_uptime_s(absl::ToInt64Seconds(absl::Now() - runtime.started));
  out.set_requests(runtime.counters.requests);
  out.set_failed(runtime.counters.failed);
  out.set_queued(engine.waiting());
  out.set_tensors(engine.tensors().count());
  out.set_tensor_bytes(engine.tensors().bytes());
  out.set_received_bytes(runtime.counters.received_bytes);
  out.set_sent_bytes(runtime.counters.sent_bytes);

  const jit::CacheStatistics cache = engine.cache().statistics();
  v1::CacheStatistics& to = *out.mutable_cache();
  int64_t loaded_hits = 0;
  for (int i = 0; i < engine.device_count(); ++i) {
    loaded_hits += engine.kernels(i).hits();
  }
  to.set_loaded_hits(loaded_hits);
  to.set_memory_hits(cache.memory_hits);
  to.set_disk_hits(cache.disk_hits);
  to.set_compiles(cache.compiles);
  to.set_compile_errors(cache.compile_errors);
  to.set_quarantined(cache.quarantined);
  to.set_write_errors(cache.write_errors);
  to.set_rejected_at_once(cache.rejected_at_once);
  for (const jit::TierStatistics& tier : cache.tiers) {
    ToWire(tier, *to.add_tiers());
  }
  const engine::Tuner::Progress tuning = engine.tuner().progress();
  v1::TuningStatistics& tuned = *out.mutable_tuning();
  tuned.set_records(tuning.records);
  tuned.set_tuned(tuning.tuned);
  tuned.set_failed(tuning.failed);
  tuned.set_background_us(absl::ToInt64Microseconds(tuning.device_time));
  co_return out;
}

}  // namespace gemmd::rpc
