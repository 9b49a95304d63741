#include "tests/bench/profiler_range.h"

#include <cuda.h>
#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"

namespace gemmd::bench {
namespace {

absl::Status Tell(const char* symbol) {
  // Of the driver that is loaded already.
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  using Function = CUresult (*)();
  const auto function =
      driver == nullptr ? nullptr
                        : reinterpret_cast<Function>(dlsym(driver, symbol));
  if (function != nullptr && function() == CUDA_SUCCESS) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat(symbol, " of the CUDA driver does not work"));
}

}  // namespace

absl::Status InProfilerRange(const gpu::Stream& stream,
                             const std::function<absl::Status()>& work) {
  RETURN_IF_ERROR(stream.Synchronize());
  RETURN_IF_ERROR(Tell("cuProfilerStart"));
  RETURN_IF_ERROR(work());
  RETURN_IF_ERROR(stream.Synchronize());
  return Tell("cuProfilerStop");
}

}  // namespace gemmd::bench
