#include "service/rpc/kernel_summary.h"
#include "service/rpc/methods.h"

namespace gemmd::rpc {

Async<absl::StatusOr<v1::ListKernelsResponse>> ListKernels(
    Runtime& runtime, Call&, const v1::ListKernelsRequest&) {
  v1::ListKernelsResponse response;
  for (const auto& kernel : runtime.engine.cache().List()) {
    *response.add_kernels() = ToWire(*kernel, runtime.engine);
  }
  co_return response;
}

}  // namespace gemmd::rpc
