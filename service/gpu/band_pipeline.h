// Bands of a product on their way through a GPU (device::Band): their operands
// come on one stream, they are multiplied on another, and their results leave
// on a third, so that both directions of the bus and the multiprocessors work
// side by side. Used by one thread at a time.
#ifndef GEMMD_SERVICE_GPU_BAND_PIPELINE_H_
#define GEMMD_SERVICE_GPU_BAND_PIPELINE_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/device/device.h"
#include "service/gpu/event.h"
#include "service/gpu/stream.h"

namespace gemmd::gpu {

// Those beside the stream that multiplies.
struct BandStreams {
  static absl::StatusOr<std::unique_ptr<BandStreams>> Create(
      const Context* context);
  // Waits for both, whatever becomes of the first.
  absl::Status Synchronize() const;

  std::shared_ptr<Stream> up, down;
};

class BandPipeline {
 public:
  using Work = absl::FunctionRef<absl::Status(const Stream&)>;

  // Nothing is brought before the work that `main` has by now is done. Both
  // outlive the pipeline, and their context is current.
  static absl::StatusOr<BandPipeline> Begin(const Stream& main,
                                            const BandStreams& beside);
  // The next band, each step of which waits for the one before, and for the
  // same step of bands before.
  absl::Status Enqueue(Work up, Work multiply, Work down);
  // When all is done, of one band at least.
  absl::StatusOr<device::BandTimes> Times() const;

 private:
  // A step of a band.
  struct Span {
    Event begin, end;
  };
  using Spans = std::vector<Span>;

  BandPipeline(const Stream& main, const BandStreams& beside, Event begin)
      : main_(main), beside_(beside), begin_(std::move(begin)) {}

  // Does `work` on `stream`, behind `before` unless that is null.
  absl::Status EnqueueStep(const Span* before, const Stream& stream, Work work,
                           Spans& spans) const;
  static absl::StatusOr<absl::Duration> Between(const Event& begin,
                                                const Event& end);

  const Stream& main_;
  const BandStreams& beside_;
  Event begin_;
  Spans uploads_, launches_, downloads_;
};

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_BAND_PIPELINE_H_
