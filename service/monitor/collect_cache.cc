#include "service/monitor/collect.h"

namespace gemmd::monitor {
namespace {

using metrics::Metric;

void AddTier(const jit::TierStatistics& tier, metrics::Exposition& out) {
  out.Add(Metric::kCacheLoads, tier.hits, {tier.name, "hit"});
  out.Add(Metric::kCacheLoads, tier.misses, {tier.name, "miss"});
  out.Add(Metric::kCacheLoads, tier.errors, {tier.name, "error"});
  out.Add(Metric::kCacheLoadTime, tier.load_us / 1e6, {tier.name});
  out.Add(Metric::kCacheBytes, tier.bytes_loaded, {tier.name, "loaded"});
  out.Add(Metric::kCacheBytes, tier.bytes_stored, {tier.name, "stored"});
}

}  // namespace

void CollectCache(engine::Engine& engine, metrics::Exposition& out) {
  const jit::CacheStatistics cache = engine.cache().statistics();
  out.Add(Metric::kCacheMemoryHits, cache.memory_hits);
  for (const jit::TierStatistics& tier : cache.tiers) AddTier(tier, out);
  out.Add(Metric::kCacheQuarantined, cache.quarantined);
  out.Add(Metric::kCacheWriteErrors, cache.write_errors);
  out.Add(Metric::kCompiles, cache.compiles);
  out.Add(Metric::kCompileErrors, cache.compile_errors);
  out.Add(Metric::kCompileRejections, cache.rejected_at_once);

  const engine::Places& waiting = engine.preparer().places();
  out.Add(Metric::kCompileWaiting, waiting.taken());
  out.Add(Metric::kCompileLimit, waiting.limit());

  const engine::Tuner::Progress tuning = engine.tuner().progress();
  out.Add(Metric::kTuningRecords, tuning.records);
  out.Add(Metric::kTuned, tuning.tuned, {"tuned"});
  out.Add(Metric::kTuned, tuning.failed, {"failed"});
  out.Add(Metric::kTuningTime, absl::ToDoubleSeconds(tuning.device_time));
}

}  // namespace gemmd::monitor
