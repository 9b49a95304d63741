#include "service/rpc/call_metrics.h"

#include <algorithm>

#include "absl/strings/strip.h"
#include "service/rpc/handler.h"

namespace gemmd::rpc {

absl::string_view NameOf(Rejection rejection) {
  switch (rejection) {
    case Rejection::kCallsOfConnection:
      return "calls_of_connection";
    case Rejection::kCallsOfPrincipal:
      return "calls_of_principal";
    case Rejection::kCalls:
      return "calls";
    case Rejection::kMessageSize:
      return "message_size";
    case Rejection::kTensorSize:
      return "tensor_size";
    case Rejection::kRequestBudget:
      return "request_budget";
    case Rejection::kResponseBudget:
      return "response_budget";
    case Rejection::kOverrun:
      return "overrun";
    case Rejection::kStall:
      return "stall";
    case Rejection::kCallTime:
      return "call_time";
    case Rejection::kShutdown:
      return "shutdown";
    case Rejection::kCount:
      break;
  }
  return "";
}

CallMetrics::CallMetrics() {
  for (const std::string& name : MethodNames()) {
    methods_[absl::StripPrefix(name, "/")] = std::make_unique<Method>();
  }
  auto& other = methods_["other"];
  other = std::make_unique<Method>();
  other_ = other.get();
}

void CallMetrics::Ended(absl::string_view method, identity::Proof proof,
                        absl::StatusCode code, absl::Duration duration) {
  const auto found = methods_.find(absl::StripPrefix(method, "/"));
  Method& of = found == methods_.end() ? *other_ : *found->second;
  const auto index = std::min<size_t>(static_cast<size_t>(code), kCodes - 1);
  of.ended[static_cast<size_t>(proof)][index].fetch_add(
      1, std::memory_order_relaxed);
  of.duration.Observe(duration);
}

}  // namespace gemmd::rpc
