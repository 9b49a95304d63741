#include "service/gpu/band_pipeline.h"

#include <utility>

#include "jit/base/status.h"

namespace gemmd::gpu {

absl::StatusOr<std::unique_ptr<BandStreams>> BandStreams::Create(
    const Context* context) {
  auto streams = std::make_unique<BandStreams>();
  ASSIGN_OR_RETURN(streams->up, Stream::Create(context));
  ASSIGN_OR_RETURN(streams->down, Stream::Create(context));
  return streams;
}

absl::Status BandStreams::Synchronize() const {
  const absl::Status returned = down->Synchronize();
  const absl::Status brought = up->Synchronize();
  return returned.ok() ? brought : returned;
}

absl::StatusOr<BandPipeline> BandPipeline::Begin(const Stream& main,
                                                 const BandStreams& beside) {
  const Context* const context = &main.context();
  ASSIGN_OR_RETURN(Event begin, Event::Create(context, Event::Timing::kOn));
  RETURN_IF_ERROR(begin.Record(*beside.up));
  ASSIGN_OR_RETURN(const Event given,
                   Event::Create(context, Event::Timing::kOff));
  RETURN_IF_ERROR(given.Record(main));
  RETURN_IF_ERROR(given.Delay(*beside.up));
  return BandPipeline(main, beside, std::move(begin));
}

absl::Status BandPipeline::EnqueueStep(const Span* before, const Stream& stream,
                                       Work work, Spans& spans) const {
  const Context* const context = &stream.context();
  ASSIGN_OR_RETURN(Event begin, Event::Create(context, Event::Timing::kOn));
  ASSIGN_OR_RETURN(Event end, Event::Create(context, Event::Timing::kOn));
  if (before != nullptr) RETURN_IF_ERROR(before->end.Delay(stream));
  RETURN_IF_ERROR(begin.Record(stream));
  RETURN_IF_ERROR(work(stream));
  RETURN_IF_ERROR(end.Record(stream));
  spans.push_back({std::move(begin), std::move(end)});
  return absl::OkStatus();
}

absl::Status BandPipeline::Enqueue(Work up, Work multiply, Work down) {
  RETURN_IF_ERROR(EnqueueStep(nullptr, *beside_.up, up, uploads_));
  RETURN_IF_ERROR(EnqueueStep(&uploads_.back(), main_, multiply, launches_));
  return EnqueueStep(&launches_.back(), *beside_.down, down, downloads_);
}

absl::StatusOr<absl::Duration> BandPipeline::Between(const Event& begin,
                                                     const Event& end) {
  ASSIGN_OR_RETURN(const double ms, Event::Milliseconds(begin, end));
  return absl::Milliseconds(ms);
}

// Bands come one directly behind the other.
absl::StatusOr<device::BandTimes> BandPipeline::Times() const {
  device::BandTimes times;
  const Event& came = uploads_.back().end;
  const Event& made = launches_.back().end;
  ASSIGN_OR_RETURN(times.upload, Between(begin_, came));
  ASSIGN_OR_RETURN(times.execute, Between(came, made));
  ASSIGN_OR_RETURN(times.download, Between(made, downloads_.back().end));
  for (const Span& launch : launches_) {
    ASSIGN_OR_RETURN(const absl::Duration kernel,
                     Between(launch.begin, launch.end));
    times.kernels += kernel;
  }
  return times;
}

}  // namespace gemmd::gpu
