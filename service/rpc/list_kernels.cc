#include <utility>

#include "service/rpc/engine_call.h"
#include "service/rpc/kernel_summary.h"
#include "service/rpc/methods.h"

namespace gemmd::rpc {

Async<absl::StatusOr<v1::ListKernelsResponse>> ListKernels(
    Runtime& runtime, Call& call, const v1::ListKernelsRequest&) {
  using Response = v1::ListKernelsResponse;
  auto list =
      CallEngine<Response>(call.loop(), [&](engine::Done<Response> done) {
        runtime.engine.InBackground<Response>(
            [&runtime]() -> absl::StatusOr<Response> {
              Response response;
              for (const auto& kernel : runtime.engine.cache().List()) {
                *response.add_kernels() = ToWire(*kernel, runtime.engine);
              }
              return response;
            },
            std::move(done));
      });
  absl::StatusOr<Response> response = co_await list;
  co_return response;
}

}  // namespace gemmd::rpc
