#include "service/gpu/event.h"

#include "service/gpu/status.h"

namespace gemmd::gpu {

absl::StatusOr<Event> Event::Create(const Context* context, Timing timing) {
  RETURN_IF_ERROR(context->MakeCurrent());
  CUevent event;
  const unsigned flags =
      timing == Timing::kOn ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
  RETURN_IF_CUDA_ERROR(context->driver(), cuEventCreate(&event, flags));
  return Event(context, Handle(context, event));
}

absl::Status Event::Record(const Stream& stream) const {
  RETURN_IF_CUDA_ERROR(context_->driver(),
                       cuEventRecord(handle_.get(), stream.get()));
  return absl::OkStatus();
}

absl::Status Event::Synchronize() const {
  RETURN_IF_CUDA_ERROR(context_->driver(), cuEventSynchronize(handle_.get()));
  return absl::OkStatus();
}

absl::Status Event::Delay(const Stream& stream) const {
  RETURN_IF_CUDA_ERROR(
      context_->driver(),
      cuStreamWaitEvent(stream.get(), handle_.get(), CU_EVENT_WAIT_DEFAULT));
  return absl::OkStatus();
}

absl::StatusOr<double> Event::Milliseconds(const Event& begin,
                                           const Event& end) {
  float milliseconds = 0;
  RETURN_IF_CUDA_ERROR(begin.context_->driver(),
                       cuEventElapsedTime(&milliseconds, begin.handle_.get(),
                                          end.handle_.get()));
  return milliseconds;
}

}  // namespace gemmd::gpu
