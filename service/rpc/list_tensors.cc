#include "service/rpc/methods.h"
#include "service/rpc/tensor_info.h"

namespace gemmd::rpc {

Async<absl::StatusOr<v1::ListTensorsResponse>> ListTensors(
    Runtime& runtime, Call& call, const v1::ListTensorsRequest&) {
  v1::ListTensorsResponse response;
  engine::TensorStore& tensors = runtime.engine.tensors();
  // A handle is all that it takes to use a tensor.
  for (const auto& tensor :
       call.may_administer()
           ? tensors.List()
           : tensors.ListOf(call.request_context().identity)) {
    *response.add_tensors() = ToWire(*tensor, runtime.engine);
  }
  co_return response;
}

}  // namespace gemmd::rpc
