// The primary context of one GPU, retained for the life of this object.
// Thread-safe. Everything else in this folder holds a pointer to a Context
// that outlives it.
#ifndef GEMMD_SERVICE_GPU_CONTEXT_H_
#define GEMMD_SERVICE_GPU_CONTEXT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "service/gpu/driver_table.h"

namespace gemmd::gpu {

class Context {
 public:
  static absl::StatusOr<std::unique_ptr<Context>> Create(
      std::shared_ptr<const DriverTable> driver, int ordinal);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Binds this context to the calling thread. Every entry into this folder
  // from outside does so first, because threads serve several devices.
  absl::Status MakeCurrent() const;

  const DriverTable& driver() const { return *driver_; }
  CUdevice device() const { return device_; }
  CUcontext get() const { return context_; }
  // Value of a device attribute.
  absl::StatusOr<int> Attribute(CUdevice_attribute attribute) const;

 private:
  Context(std::shared_ptr<const DriverTable> driver, CUdevice device,
          CUcontext context);

  const std::shared_ptr<const DriverTable> driver_;
  const CUdevice device_;
  const CUcontext context_;
};

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_CONTEXT_H_
