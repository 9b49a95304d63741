#include "service/rpc/methods.h"
#include "service/rpc/tensor_info.h"

namespace gemmd::rpc {

Async<absl::StatusOr<v1::ListTensorsResponse>> ListTensors(
    Runtime& runtime, Call&, const v1::ListTensorsRequest&) {
  v1::ListTensorsResponse response;
  for (const auto& tensor : runtime.engine.tensors().List()) {
    *response.add_tensors() = ToWire(*tensor, runtime.engine);
  }
  co_return response;
}

}  // namespace gemmd::rpc
