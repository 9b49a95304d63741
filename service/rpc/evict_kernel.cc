#include "service/rpc/kernel_summary.h"
#include "service/rpc/methods.h"

namespace gemmd::rpc {

Async<absl::StatusOr<v1::EvictKernelResponse>> EvictKernel(
    Runtime& runtime, Call&, const v1::EvictKernelRequest& request) {
  CO_RETURN_IF_ERROR(CheckKey(request.key()));
  CO_RETURN_IF_ERROR(runtime.engine.cache().Evict(request.key()));
  for (int i = 0; i < runtime.engine.device_count(); ++i) {
    runtime.engine.kernels(i).Evict(request.key());
  }
  co_return v1::EvictKernelResponse();
}

}  // namespace gemmd::rpc
