// Long kernels of a GPU, whatever streams they are on, run one after the other.
// Side by side their CTAs are at different places of different operands, and
// share nothing in L2: products of 8192^3, several at a time, took 2.6 times as
// long as one behind the other, of 12288 x 12288 x 1536 1.3 times (H100).
// Thread-safe.
#ifndef GEMMD_SERVICE_GPU_LAUNCH_ORDER_H_
#define GEMMD_SERVICE_GPU_LAUNCH_ORDER_H_

#include <memory>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "service/gpu/event.h"
#include "service/gpu/stream.h"

namespace gemmd::gpu {

class LaunchOrder {
 public:
  // Has `launch` enqueue a kernel on `stream`, to begin when the one before has
  // ended. `end` is an event that only this stream records.
  absl::Status InTurn(const Stream& stream, const std::shared_ptr<Event>& end,
                      absl::FunctionRef<absl::Status()> launch);

 private:
  std::mutex mutex_;
  std::shared_ptr<Event> last_ ABSL_GUARDED_BY(mutex_);  // Null before any.
};

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_LAUNCH_ORDER_H_
