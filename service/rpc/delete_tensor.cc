#include "service/rpc/methods.h"

namespace gemmd::rpc {

Async<absl::StatusOr<v1::DeleteTensorResponse>> DeleteTensor(
    Runtime& runtime, Call& call, const v1::DeleteTensorRequest& request) {
  CO_RETURN_IF_ERROR(runtime.engine.tensors().Delete(
      request.handle(), call.request_context().identity,
      call.may_administer()));
  co_return v1::DeleteTensorResponse();
}

}  // namespace gemmd::rpc
