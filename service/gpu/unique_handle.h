// Sole owner of a driver handle: one with &DriverTable::cuEventDestroy
// destroys its event, in the event's context. Movable, thread-compatible.
#ifndef GEMMD_SERVICE_GPU_UNIQUE_HANDLE_H_
#define GEMMD_SERVICE_GPU_UNIQUE_HANDLE_H_

#include <utility>

#include "service/gpu/context.h"

namespace gemmd::gpu {

template <typename Handle, auto kDestroy>
class UniqueHandle {
 public:
  UniqueHandle() = default;
  // `context` outlives this object.
  UniqueHandle(const Context* context, Handle handle)
      : context_(context), handle_(handle) {}
  UniqueHandle(UniqueHandle&& other) noexcept
      : context_(other.context_), handle_(std::exchange(other.handle_, {})) {}
  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    if (this != &other) {
      Reset();
      context_ = other.context_;
      handle_ = std::exchange(other.handle_, {});
    }
    return *this;
  }
  ~UniqueHandle() { Reset(); }

  Handle get() const { return handle_; }

  // Errors are dropped: after a lost device nothing can be destroyed, and
  // nothing needs to be.
  void Reset() {
    if (handle_ == Handle{}) return;
    if (context_->MakeCurrent().ok()) {
      (context_->driver().*kDestroy)(handle_);
    }
    handle_ = {};
  }

 private:
  const Context* context_ = nullptr;
  Handle handle_ = {};
};

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_UNIQUE_HANDLE_H_
