#include <variant>

#include "service/rpc/background.h"
#include "service/rpc/kernel_summary.h"
#include "service/rpc/methods.h"

namespace gemmd::rpc {

Async<absl::StatusOr<v1::EvictKernelResponse>> EvictKernel(
    Runtime& runtime, Call& call, const v1::EvictKernelRequest& request) {
  if (!call.may_administer()) {
    co_return absl::PermissionDeniedError(
        "kernels serve all clients; a daemon lets clients evict them when it "
        "is started with --admin-calls");
  }
  CO_RETURN_IF_ERROR(CheckKey(request.key()));
  auto evict = InBackground<std::monostate>(
      runtime, call, [&]() -> absl::StatusOr<std::monostate> {
        RETURN_IF_ERROR(runtime.engine.cache().Evict(request.key()));
        // To unload one may wait for what runs on the device.
        for (int i = 0; i < runtime.engine.device_count(); ++i) {
          runtime.engine.kernels(i).Evict(request.key());
        }
        return std::monostate();
      });
  CO_RETURN_IF_ERROR((co_await evict).status());
  co_return v1::EvictKernelResponse();
}

}  // namespace gemmd::rpc
