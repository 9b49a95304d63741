// A CUDA stream: work enqueued on it runs in order. Thread-safe as the driver
// is; order between threads is the callers' matter.
#ifndef GEMMD_SERVICE_GPU_STREAM_H_
#define GEMMD_SERVICE_GPU_STREAM_H_

#include <atomic>
#include <memory>

#include "absl/status/statusor.h"
#include "service/gpu/unique_handle.h"

namespace gemmd::gpu {

class Stream {
 public:
  // Does not synchronise with the null stream. `context` outlives the stream.
  static absl::StatusOr<std::shared_ptr<Stream>> Create(const Context* context);

  // Waits for all work. Reports errors of earlier asynchronous work too.
  absl::Status Synchronize() const;

  const Context& context() const { return *context_; }
  const DriverTable& driver() const { return context_->driver(); }
  CUstream get() const { return handle_.get(); }

  // Of the grid that was enqueued last: whether the next may be placed beside
  // it (programmatic dependent launch), and not only as it ends.
  bool starts_next_early() const { return starts_next_early_; }
  void set_starts_next_early(bool early) const { starts_next_early_ = early; }

 private:
  using Handle = UniqueHandle<CUstream, &DriverTable::cuStreamDestroy>;

  Stream(const Context* context, Handle handle)
      : context_(context), handle_(std::move(handle)) {}

  const Context* const context_;
  const Handle handle_;
  mutable std::atomic<bool> starts_next_early_ = false;
};

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_STREAM_H_
