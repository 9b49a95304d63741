// A CUDA event: a point in a stream that can be waited for or timed.
#ifndef GEMMD_SERVICE_GPU_EVENT_H_
#define GEMMD_SERVICE_GPU_EVENT_H_

#include "absl/status/statusor.h"
#include "service/gpu/stream.h"

namespace gemmd::gpu {

class Event {
 public:
  enum class Timing { kOff, kOn };

  static absl::StatusOr<Event> Create(const Context* context, Timing timing);

  absl::Status Record(const Stream& stream) const;
  // Waits for the point last recorded; returns at once if there is none.
  absl::Status Synchronize() const;
  // Makes later work of `stream` wait for the point last recorded.
  absl::Status Delay(const Stream& stream) const;

  // Time on the device between two recorded and completed points.
  static absl::StatusOr<double> Milliseconds(const Event& begin,
                                             const Event& end);

 private:
  using Handle = UniqueHandle<CUevent, &DriverTable::cuEventDestroy>;

  Event(const Context* context, Handle handle)
      : context_(context), handle_(std::move(handle)) {}

  const Context* context_;
  Handle handle_;
};

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_EVENT_H_
