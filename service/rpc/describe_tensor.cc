#include "service/rpc/methods.h"
#include "service/rpc/tensor_info.h"

namespace gemmd::rpc {

Async<absl::StatusOr<v1::TensorInfo>> DescribeTensor(
    Runtime& runtime, Call& call, const v1::DescribeTensorRequest& request) {
  CO_ASSIGN_OR_RETURN(const auto tensor,
                      runtime.engine.tensors().Find(
                          request.handle(), call.request_context().identity));
  co_return ToWire(*tensor, runtime.engine);
}

}  // namespace gemmd::rpc
