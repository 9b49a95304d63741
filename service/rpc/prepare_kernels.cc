#include <utility>
#include <vector>

#include "service/rpc/convert.h"
#include "service/rpc/engine_call.h"
#include "service/rpc/methods.h"
#include "service/rpc/problem_list.h"

namespace gemmd::rpc {
Async<absl::StatusOr<v1::PrepareKernelsResponse>> PrepareKernels(
    Runtime& runtime, Call& call, const v1::PrepareKernelsRequest& request) {
  CO_ASSIGN_OR_RETURN(const std::vector<jit::Problem> problems,
                      ToProblems(request.problems()));
  CO_ASSIGN_OR_RETURN(const std::vector<int> devices,
                      ToDevices(runtime, request.device()));
  v1::PrepareKernelsResponse response;
  for (const jit::Problem& problem : problems) {
    for (const int device : devices) {
      auto prepare = CallEngine<engine::Execution>(
          call.loop(), [&](engine::Done<engine::Execution> done) {
            runtime.engine.Prepare(problem, device, call.request_context(),
                                   std::move(done));
          });
      absl::StatusOr<engine::Execution> execution = co_await prepare;
      if (!execution.ok()) co_return execution.status();
      *response.add_kernels() = ToWire(*execution);
    }
  }
  co_return response;
}

}  // namespace gemmd::rpc
