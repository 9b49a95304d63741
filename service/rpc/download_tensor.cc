#include "absl/strings/str_cat.h"
#include "service/rpc/handler.h"
#include "service/rpc/methods.h"
#include "service/rpc/send_matrix.h"
#include "service/rpc/wire_layout.h"

namespace gemmd::rpc {
namespace {

constexpr int64_t kDefaultChunkBytes = 1 << 20;
constexpr int64_t kMaxChunkBytes = 16 << 20;

absl::StatusOr<OutgoingMatrix> ToOutgoing(
    Runtime& runtime, const Call& call,
    const v1::DownloadTensorRequest& request) {
  OutgoingMatrix matrix;
  matrix.field = v1::DownloadTensorResponse::kDataFieldNumber;
  if (request.chunk_bytes() < 0 || request.chunk_bytes() > kMaxChunkBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk_bytes is ", request.chunk_bytes(),
                     "; allowed: 0 to ", kMaxChunkBytes));
  }
  matrix.chunk_bytes =
      request.chunk_bytes() == 0 ? kDefaultChunkBytes : request.chunk_bytes();
  ASSIGN_OR_RETURN(matrix.tensor,
                   runtime.engine.tensors().Find(
                       request.handle(), call.request_context().identity));
  ASSIGN_OR_RETURN(
      const WireLayout wire,
      ToWireLayout(request.layout(), matrix.tensor->layout(), "layout"));
  RETURN_IF_ERROR(CheckTight(wire, matrix.tensor->layout(), "layout"));
  matrix.pitch_bytes = wire.pitch_bytes;
  return matrix;
}

}  // namespace

Async<absl::Status> DownloadTensor(Runtime& runtime, Call& call) {
  v1::DownloadTensorRequest request;
  absl::Status status = co_await ReadRequest(call, request);
  if (!status.ok()) co_return status;
  CO_ASSIGN_OR_RETURN(OutgoingMatrix matrix,
                      ToOutgoing(runtime, call, request));
  status = co_await SendMatrix(runtime, call, matrix);
  co_return status;
}

}  // namespace gemmd::rpc
