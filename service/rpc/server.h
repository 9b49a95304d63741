// The daemon's network side: listens, accepts calls on its loops, hands them
// to handlers, reports readiness, drains.
#ifndef GEMMD_SERVICE_RPC_SERVER_H_
#define GEMMD_SERVICE_RPC_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/engine/engine.h"
#include "service/identity/gate.h"
#include "service/rpc/runtime.h"
#include "service/tls/keeper.h"

namespace gemmd::rpc {

class Server {
 public:
  struct Options {
    // "127.0.0.1:0" (0: any free port), "[::1]:50051", "unix:/path".
    std::vector<std::string> listen;
    // Plaintext on an address that other machines can reach.
    bool allow_plaintext_nonloopback = false;
    // Of TCP addresses. Without a certificate they are plaintext; Unix sockets
    // always are.
    tls::Files tls;
    // Who may call; without a policy, whoever can connect.
    identity::Files identity;
    // Threads that poll the network, at most. 0: one for two cores, 2 to 8.
    int loops = 0;
    // They spin so long for an answer of the engine before they sleep.
    absl::Duration spin = absl::ZeroDuration();
    // While a drain waits for balancers to notice before it refuses calls.
    absl::Duration drain_grace = absl::Seconds(0);
    // Then calls that still run are cancelled after this long.
    absl::Duration drain_timeout = absl::Seconds(30);
    // Between probes of a device, and for one; see HealthMonitor.
    absl::Duration probe_interval = absl::Seconds(10);
    absl::Duration probe_timeout = absl::Seconds(10);
    // Called, once, when every device has failed several probes in a row.
    // Must not drain the server itself: it runs on the probing thread.
    std::function<void()> on_devices_lost;
    ServerFacts facts;
    Limits limits;
    models::Store::Options models;
  };

  // `engine` outlives the server. INVALID_ARGUMENT for a bad address,
  // UNAVAILABLE when it cannot be bound, CANCELLED when Options::models.stops.
  static absl::StatusOr<std::unique_ptr<Server>> Start(Options options,
                                                       engine::Engine& engine);
  // Drains, unless that is done, without the grace period: its owner failed to
  // start, and wants to say so.
  ~Server();

  // Where it listens, as clients may dial: ports resolved.
  const std::vector<std::string>& addresses() const;

  // For those who watch it; lives as long as the server.
  const Runtime& runtime() const;

  // NOT_SERVING, the grace period, then no new calls and the end of those
  // that run, by drain_timeout at the latest. Returns when the engine has
  // answered all of them, which nothing can hasten once a device works on
  // one: who cannot wait ends the process. False when a device hangs in a
  // probe: the engine must then not be destroyed, and neither the server.
  bool Drain();

 private:
  class Impl;

  explicit Server(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_SERVER_H_
