#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "service/rpc/engine_call.h"
#include "service/rpc/handler.h"
#include "service/rpc/line_range.h"
#include "service/rpc/methods.h"
#include "service/rpc/region_part.h"
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
  matrix.version_field = v1::DownloadTensorResponse::kVersionFieldNumber;
  if (request.has_version()) matrix.version = request.version();
  matrix.chunk_bytes =
      request.chunk_bytes() == 0 ? kDefaultChunkBytes : request.chunk_bytes();
  if (matrix.chunk_bytes < kLeastChunkBytes ||
      matrix.chunk_bytes > kMaxChunkBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "chunk_bytes is ", matrix.chunk_bytes, "; allowed: 0, which is ",
        kDefaultChunkBytes, ", or ", kLeastChunkBytes, " to ", kMaxChunkBytes));
  }
  ASSIGN_OR_RETURN(matrix.tensor,
                   runtime.engine.tensors().Find(
                       request.handle(), call.request_context().identity));
  const jit::MatrixLayout& layout = matrix.tensor->layout();
  ASSIGN_OR_RETURN(const WireLayout wire,
                   ToSentLayout(request.layout(), layout, "layout"));
  matrix.lines = {0, layout.lines()};
  if (request.has_lines()) {
    ASSIGN_OR_RETURN(matrix.lines,
                     ToLineRange(request.lines(), layout, "lines"));
  }
  matrix.pitch_bytes = wire.pitch_bytes;
  return matrix;
}

absl::Status CheckAlone(const v1::DownloadTensorRequest& request) {
  for (const auto& [is_given, field] :
       {std::pair(request.has_layout(), "layout"),
        std::pair(request.chunk_bytes() != 0, "chunk_bytes"),
        std::pair(request.has_lines(), "lines"),
        std::pair(request.has_version(), "version")}) {
    if (!is_given) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        field,
        " is given; allowed beside a region: the region's layout alone"));
  }
  return absl::OkStatus();
}

Async<absl::Status> Copy(Runtime& runtime, Call& call,
                         const v1::DownloadTensorRequest& request) {
  CO_RETURN_IF_ERROR(CheckAlone(request));
  const std::string& identity = call.request_context().identity;
  CO_ASSIGN_OR_RETURN(const auto tensor, runtime.engine.tensors().Find(
                                             request.handle(), identity));
  const jit::MatrixLayout& layout = tensor->layout();
  CO_ASSIGN_OR_RETURN(RegionBytes found,
                      FindRegion(*runtime.regions, identity, request.region(),
                                 layout, "region"));
  CO_RETURN_IF_ERROR(CheckTight(found.wire, layout, "region.layout"));
  CO_RETURN_IF_ERROR(CheckOnDevice(runtime, *found.place.region,
                                   tensor->identity().device, "region"));
  auto copy = CallEngine<engine::TensorPart>(
      call.loop(), [&](engine::Done<engine::TensorPart> done) {
        runtime.engine.DownloadTo(found.place, tensor, found.wire.pitch_bytes,
                                  call.request_context(), std::move(done));
      });
  absl::StatusOr<engine::TensorPart> copied = co_await copy;
  co_return copied.status();
}

}  // namespace

Async<absl::Status> DownloadTensor(Runtime& runtime, Call& call) {
  v1::DownloadTensorRequest request;
  absl::Status status = co_await ReadRequest(call, request);
  if (!status.ok()) co_return status;
  if (request.has_region()) {
    status = co_await Copy(runtime, call, request);
    co_return status;
  }
  CO_ASSIGN_OR_RETURN(OutgoingMatrix matrix,
                      ToOutgoing(runtime, call, request));
  status = co_await SendMatrix(runtime, call, matrix);
  co_return status;
}

}  // namespace gemmd::rpc
