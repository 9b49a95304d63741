// What every handler needs. Outlives all calls; thread-safe.
#ifndef GEMMD_SERVICE_RPC_RUNTIME_H_
#define GEMMD_SERVICE_RPC_RUNTIME_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "jit/base/steady_time.h"
#include "service/engine/engine.h"
#include "service/identity/gate.h"
#include "service/models/store.h"
#include "service/rpc/budget.h"
#include "service/rpc/call_count.h"
#include "service/rpc/call_metrics.h"
#include "service/rpc/health_state.h"
#include "service/rpc/kept_answers.h"
#include "service/rpc/limits.h"
#include "service/rpc/recent_failures.h"
#include "service/rpc/region/own_threads.h"
#include "service/rpc/region/store.h"
#include "service/rpc/room_line.h"
#include "service/rpc/transfers.h"
#include "service/tls/keeper.h"

namespace gemmd::rpc {

// Facts about this daemon, for GetServerInfo.
struct ServerFacts {
  std::string version;
  // Version of NVRTC, or why it is absent. Asked when a client asks, because
  // the first answer takes a digest of the library.
  std::function<std::string()> compiler = [] { return std::string("absent"); };
  bool can_compile = false;
  std::string template_digest;
  std::vector<std::string> missing;  // Abilities, one sentence each.
};

// One that counts in another one too, where it has that.
class Counter {
 public:
  explicit Counter(Counter* all = nullptr) : all_(all) {}

  void operator+=(int64_t count) {
    value_.fetch_add(count, std::memory_order_relaxed);
    if (all_ != nullptr) *all_ += count;
  }
  void operator++() { *this += 1; }
  operator int64_t() const { return value_.load(std::memory_order_relaxed); }

 private:
  Counter* const all_;
  std::atomic<int64_t> value_ = 0;
};

struct Counters {
  Counters() = default;
  // Of one of those whose counts are in `all`.
  explicit Counters(Counters& all)
      : requests(&all.requests),
        failed(&all.failed),
        received_bytes(&all.received_bytes),
        sent_bytes(&all.sent_bytes) {}

  Counter requests;  // Finished matmul requests.
  Counter failed;
  Counter received_bytes;
  Counter sent_bytes;
};

// What one principal holds and has done, by all of its connections.
struct Tenant {
  explicit Tenant(Counters& all) : counters(all) {}

  Budget::Account requests;
  Budget::Account responses;
  OwnCalls calls;
  Counters counters;
};

// Calls that clients may have begun, admitted or not, are so many times those
// that may run; who begins more is cut off.
inline constexpr int64_t kLawless = 2;
// Every connection may have so many calls, however many connections there are.
inline constexpr int64_t kLeastCallsPerConnection = 16;
// Of those who have too many: until some of them have ended.
inline constexpr absl::Duration kCallsEnd = absl::Milliseconds(50);

struct Runtime {
  Runtime(engine::Engine& engine, ServerFacts facts, Limits limits,
          models::Store::Options models = {})
      : engine(engine),
        facts(std::move(facts)),
        limits(limits),
        requests("requests", limits.max_in_flight_bytes, limits.share_bytes()),
        responses("responses", limits.max_in_flight_bytes,
                  limits.share_bytes()),
        calls({.all = kLawless * limits.max_calls,
               .connection = kLawless * limits.max_calls_per_connection,
               .connection_least = kLeastCallsPerConnection}),
        rooms(engine.device_count()),
        regions(std::make_shared<region::Store>(limits.max_region_bytes)),
        models(engine, std::move(models)) {}

  // For good: principals are as many as the policy ever named.
  std::shared_ptr<Tenant> TenantOf(const std::string& principal) {
    std::lock_guard lock(tenants_mutex);
    auto& tenant = tenants[principal];
    if (tenant == nullptr) tenant = std::make_shared<Tenant>(counters);
    return tenant;
  }

  // Whether calls, or connections that have some and so cannot make room for
  // others, are many enough for silent ones to be in the way.
  bool crowded() const {
    return calls.begun() > limits.max_calls / 2 ||
           calls.busy_connections() > limits.max_connections / 2;
  }

  engine::Engine& engine;
  const ServerFacts facts;
  const Limits limits;
  const absl::Time started = jit::SteadyNow();
  Budget requests;
  Budget responses;
  CallCount calls;
  std::vector<RoomLine> rooms;  // By device.
  // Threads that map memory for it may outlive all else.
  const std::shared_ptr<region::Store> regions;
  region::OwnThreads region_threads{64};
  Transfers transfers;
  KeptAnswers kept_answers;
  models::Store models;
  std::atomic<int64_t> places = 0;  // Of calls that were admitted.
  Counters counters;
  CallMetrics metrics;
  RecentFailures failures;
  Health health;
  std::unique_ptr<tls::Keeper> tls;  // Null: plaintext.
  // Null: nobody has to say who he is.
  std::unique_ptr<identity::Gate> gate;
  std::mutex tenants_mutex;
  absl::flat_hash_map<std::string, std::shared_ptr<Tenant>> tenants
      ABSL_GUARDED_BY(tenants_mutex);
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_RUNTIME_H_
