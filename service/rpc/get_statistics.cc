#include "jit/base/steady_time.h"
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

void AddOwn(Runtime& runtime, Call& call, v1::Statistics& out) {
  const std::string identity = call.request_context().identity;
  const auto use = runtime.engine.tensors().UseOf(identity);
  out.set_queued(runtime.engine.waiting_of(identity));
  out.set_tensors(use.tensors);
  out.set_tensor_bytes(use.bytes);
}

void AddAll(const engine::Engine& engine, v1::CacheStatistics& to) {
  const jit::CacheStatistics cache = engine.cache().statistics();
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
}

void AddAll(const engine::Engine& engine, v1::TuningStatistics& to) {
  const engine::Tuner::Progress tuning = engine.tuner().progress();
  to.set_records(tuning.records);
  to.set_tuned(tuning.tuned);
  to.set_failed(tuning.failed);
  to.set_background_us(absl::ToInt64Microseconds(tuning.device_time));
}

}  // namespace

Async<absl::StatusOr<v1::Statistics>> GetStatistics(
    Runtime& runtime, Call& call, const v1::GetStatisticsRequest&) {
  engine::Engine& engine = runtime.engine;
  // Who has to say who he is sees what is his.
  const bool own = call.principal() != nullptr && !call.may_administer();
  const Counters& counters = own ? call.counters() : runtime.counters;
  v1::Statistics out;
  out.set_uptime_s(absl::ToInt64Seconds(jit::SteadyNow() - runtime.started));
  out.set_requests(counters.requests);
  out.set_failed(counters.failed);
  out.set_received_bytes(counters.received_bytes);
  out.set_sent_bytes(counters.sent_bytes);
  if (own) {
    AddOwn(runtime, call, out);
    co_return out;
  }
  out.set_queued(engine.waiting());
  out.set_tensors(engine.tensors().count());
  out.set_tensor_bytes(engine.tensors().bytes());
  AddAll(engine, *out.mutable_cache());
  AddAll(engine, *out.mutable_tuning());
  co_return out;
}

}  // namespace gemmd::rpc
