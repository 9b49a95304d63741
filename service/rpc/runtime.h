// What every handler needs. Outlives all calls; thread-safe.
#ifndef GEMMD_SERVICE_RPC_RUNTIME_H_
#define GEMMD_SERVICE_RPC_RUNTIME_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "service/engine/engine.h"
#include "service/rpc/budget.h"
#include "service/rpc/call_count.h"
#include "service/rpc/health_state.h"
#include "service/rpc/limits.h"

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

struct Counters {
  std::atomic<int64_t> requests = 0;  // Finished matmul requests.
  std::atomic<int64_t> failed = 0;
  std::atomic<int64_t> received_bytes = 0;
  std::atomic<int64_t> sent_bytes = 0;
};

// Calls that clients may have begun, admitted or not, are so many times those
// that may run; who begins more is cut off.
inline constexpr int64_t kLawless = 2;
// Every connection may have so many calls, however many connections there are.
inline constexpr int64_t kLeastCallsPerConnection = 16;

struct Runtime {
  Runtime(engine::Engine& engine, ServerFacts facts, Limits limits)
      : engine(engine),
        facts(std::move(facts)),
        limits(limits),
        requests("requests", limits.max_in_flight_bytes, limits.share_bytes()),
        responses("responses", limits.max_in_flight_bytes,
                  limits.share_bytes()),
        calls({.all = kLawless * limits.max_calls,
               .connection = kLawless * limits.max_calls_per_connection,
               .connection_least = kLeastCallsPerConnection}) {}

  // Whether calls are many enough for silent ones to be in the way.
  bool crowded() const { return calls.begun() > limits.max_calls / 2; }

  engine::Engine& engine;
  const ServerFacts facts;
  const Limits limits;
  const absl::Time started = absl::Now();
  Budget requests;
  Budget responses;
  CallCount calls;
  std::atomic<int64_t> places = 0;  // Of calls that were admitted.
  Counters counters;
  Health health;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_RUNTIME_H_
