// Calls that have ended, by method, proof and code, and those that met a limit.
// What clients send names no metric: methods that there are not count together.
// Counting takes no lock. Thread-safe.
#ifndef GEMMD_SERVICE_RPC_CALL_METRICS_H_
#define GEMMD_SERVICE_RPC_CALL_METRICS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/identity/principal.h"
#include "service/metrics/histogram.h"
#include "service/metrics/tally.h"

namespace gemmd::rpc {

// Which limit a call has met; budgets and queues of others count their own.
enum class Rejection {
  kCallsOfConnection,
  kCallsOfPrincipal,
  kCalls,
  kMessageSize,
  kTensorSize,
  kRequestBudget,
  kResponseBudget,
  kOverrun,
  kStall,
  kCallTime,
  kShutdown,
  kCount,
};
// As metrics call it: "calls_of_connection".
absl::string_view NameOf(Rejection rejection);

class CallMetrics {
 public:
  static constexpr size_t kCodes = 17;  // Of gRPC, OK first.
  struct Method {
    using ByCode = std::array<std::atomic<int64_t>, kCodes>;
    std::array<ByCode, static_cast<size_t>(identity::Proof::kCount)> ended = {};
    metrics::Histogram duration;
  };
  using Methods = absl::flat_hash_map<std::string, std::unique_ptr<Method>>;

  // Of the methods that there are (service/rpc/handler.h).
  CallMetrics();

  void Ended(absl::string_view method, identity::Proof proof,
             absl::StatusCode code, absl::Duration duration);
  void Rejected(Rejection rejection) { rejections_.Count(rejection); }

  // By name: "gemmd.v1.MatmulService/Matmul", and "other".
  const Methods& methods() const { return methods_; }
  int64_t rejected(Rejection rejection) const {
    return rejections_.Of(rejection);
  }

 private:
  Methods methods_;  // Immutable, but for what they count.
  Method* other_ = nullptr;
  metrics::Tally<Rejection> rejections_;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_CALL_METRICS_H_
