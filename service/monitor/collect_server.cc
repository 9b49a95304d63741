#include "absl/status/status.h"
#include "service/monitor/collect.h"

namespace gemmd::monitor {
namespace {

using metrics::Metric;

// Of the 64 digits of a digest, enough to tell two apart.
constexpr size_t kDigestDigits = 12;

void AddCalls(const rpc::CallMetrics& calls, metrics::Exposition& out) {
  for (const auto& [name, method] : calls.methods()) {
    const metrics::Histogram::Snapshot duration = method->duration.Read();
    if (duration.count() == 0) continue;
    out.Add(Metric::kRequestDuration, duration, {name});
    for (size_t proof = 0; proof < method->ended.size(); ++proof) {
      for (size_t code = 0; code < method->ended[proof].size(); ++code) {
        const int64_t ended = method->ended[proof][code];
        if (ended == 0) continue;
        out.Add(Metric::kRequests, ended,
                {name,
                 absl::StatusCodeToString(static_cast<absl::StatusCode>(code)),
                 NameOf(static_cast<identity::Proof>(proof))});
      }
    }
  }
}

void AddBudget(absl::string_view name, const rpc::Budget& budget,
               metrics::Exposition& out) {
  out.Add(Metric::kBudgetHeld, budget.held_bytes(), {name});
  out.Add(Metric::kBudgetLimit, budget.total_bytes(), {name});
  out.Add(Metric::kBudgetWaiting, budget.waiting(), {name});
}

}  // namespace

void CollectServer(const rpc::Runtime& runtime, metrics::Exposition& out) {
  const rpc::ServerFacts& facts = runtime.facts;
  out.Add(Metric::kBuildInfo, 1,
          {facts.version,
           absl::string_view(facts.template_digest).substr(0, kDigestDigits)});
  out.Add(Metric::kServing, runtime.health.serving());
  AddCalls(runtime.metrics, out);
  out.Add(Metric::kRequestsInFlight, runtime.places);
  out.Add(Metric::kRequestsLimit, runtime.limits.max_calls);
  out.Add(Metric::kConnections, runtime.calls.connections());
  out.Add(Metric::kConnectionsLimit, runtime.limits.max_connections);
  out.Add(Metric::kOperandBytes, runtime.counters.received_bytes, {"received"});
  out.Add(Metric::kOperandBytes, runtime.counters.sent_bytes, {"sent"});
  out.Add(Metric::kRegions, runtime.regions->bytes());
  out.Add(Metric::kRegionLimit, runtime.regions->max_bytes());
  AddBudget("requests", runtime.requests, out);
  AddBudget("responses", runtime.responses, out);
}

}  // namespace gemmd::monitor
