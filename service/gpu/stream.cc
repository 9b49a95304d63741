#include "service/gpu/stream.h"

#include "service/gpu/status.h"

namespace gemmd::gpu {

absl::StatusOr<std::shared_ptr<Stream>> Stream::Create(const Context* context) {
  RETURN_IF_ERROR(context->MakeCurrent());
  CUstream stream;
  RETURN_IF_CUDA_ERROR(context->driver(),
                       cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return std::shared_ptr<Stream>(new Stream(context, Handle(context, stream)));
}

absl::Status Stream::Synchronize() const {
  RETURN_IF_ERROR(context_->MakeCurrent());
  RETURN_IF_CUDA_ERROR(driver(), cuStreamSynchronize(get()));
  return absl::OkStatus();
}

}  // namespace gemmd::gpu
