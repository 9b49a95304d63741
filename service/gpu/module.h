// A cubin loaded on a device and the one kernel in it.
// Immutable after loading, thread-safe.
#ifndef GEMMD_SERVICE_GPU_MODULE_H_
#define GEMMD_SERVICE_GPU_MODULE_H_

#include <string>

#include "absl/status/statusor.h"
#include "service/gpu/unique_handle.h"

namespace gemmd::gpu {

class Module {
 public:
  // FAILED_PRECONDITION when the device refuses the image, NOT_FOUND when it
  // holds no kernel `symbol`. `context` outlives the module.
  static absl::StatusOr<Module> Load(const Context* context,
                                     const std::string& cubin,
                                     const char* symbol);

  // Another kernel of the same image.
  absl::StatusOr<CUfunction> Function(const char* symbol) const;

  CUfunction function() const { return function_; }

 private:
  using Handle = UniqueHandle<CUmodule, &DriverTable::cuModuleUnload>;

  Module(const Context* context, Handle handle)
      : context_(context), handle_(std::move(handle)) {}

  const Context* context_;
  Handle handle_;
  CUfunction function_ = nullptr;
};

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_MODULE_H_
