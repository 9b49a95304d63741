#include <algorithm>

#include "service/rpc/handler.h"
#include "service/rpc/health_watch.h"
#include "service/rpc/methods.h"

namespace gemmd::rpc {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// All services are as well as the daemon is.
HealthCheckResponse::ServingStatus StatusOf(Runtime& runtime,
                                            const std::string& service) {
  const auto names = ServiceNames();
  if (!service.empty() && !std::ranges::binary_search(names, service)) {
    return HealthCheckResponse::SERVICE_UNKNOWN;
  }
  return runtime.health.serving() ? HealthCheckResponse::SERVING
                                  : HealthCheckResponse::NOT_SERVING;
}

}  // namespace

Async<absl::StatusOr<HealthCheckResponse>> CheckHealth(
    Runtime& runtime, Call&, const HealthCheckRequest& request) {
  HealthCheckResponse response;
  response.set_status(StatusOf(runtime, request.service()));
  if (response.status() == HealthCheckResponse::SERVICE_UNKNOWN) {
    co_return absl::NotFoundError(
        "service is unknown; allowed: \"\" or one "
        "that reflection lists");
  }
  co_return response;
}

Async<absl::Status> WatchHealth(Runtime& runtime, Call& call) {
  HealthCheckRequest request;
  absl::Status read = co_await ReadRequest(call, request);
  if (!read.ok()) co_return read;
  HealthWatch watch(call, runtime.health);
  CO_RETURN_IF_ERROR(watch.Open());
  HealthCheckResponse response;
  bool told = false;
  while (!runtime.health.shutting_down()) {
    CO_RETURN_IF_ERROR(call.request_context().Check("the next change"));
    const auto status = StatusOf(runtime, request.service());
    if (!told || response.status() != status) {
      response.set_status(status);
      const grpc::ByteBuffer message = Serialize(response);
      const bool written = co_await call.Write(message);
      if (!written) co_return absl::CancelledError("the client has gone");
      told = true;
    }
    co_await watch.Change();
  }
  co_return absl::UnavailableError("the daemon is shutting down");
}

}  // namespace gemmd::rpc
