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
#include "service/rpc/health_state.h"
#include "service/rpc/in_flight_bytes.h"

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

struct Limits {
  // At most 2^31 - 1: gRPC holds message sizes in an int.
  int64_t max_message_bytes = int64_t{1} << 30;
  // Operand bytes of all requests together.
  int64_t max_in_flight_bytes = int64_t{4} << 30;
  int64_t max_tensor_bytes = 0;
  absl::Duration tensor_ttl = absl::Hours(1);
  int64_t max_queue = 256;
};

struct Counters {
  std::atomic<int64_t> requests = 0;  // Finished matmul requests.
  std::atomic<int64_t> failed = 0;
  std::atomic<int64_t> received_bytes = 0;
  std::atomic<int64_t> sent_bytes = 0;
};

struct Runtime {
  Runtime(engine::Engine& engine, ServerFacts facts, Limits limits)
      : engine(engine),
        facts(std::move(facts)),
        limits(limits),
        in_flight(limits.max_in_flight_bytes) {}

  engine::Engine& engine;
  const ServerFacts facts;
  const Limits limits;
  const absl::Time started = absl::Now();
  InFlightBytes in_flight;
  Counters counters;
  Health health;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_RUNTIME_H_
