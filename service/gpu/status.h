// CUresult -> absl::Status: the one place where driver errors are classified.
#ifndef GEMMD_SERVICE_GPU_STATUS_H_
#define GEMMD_SERVICE_GPU_STATUS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "jit/base/status.h"
#include "service/gpu/driver_table.h"

// RETURN_IF_CUDA_ERROR(driver, cuStreamSynchronize(stream)): calls through the
// table and returns a Status that names the call when it fails.
#define RETURN_IF_CUDA_ERROR(driver, call) \
  RETURN_IF_ERROR(::gemmd::gpu::ToStatus((driver), (driver).call, #call))

namespace gemmd::gpu {

// True for errors after which the context refuses all further work.
bool IsSticky(CUresult result);

absl::StatusCode ToStatusCode(CUresult result);

// `call` is the text of the call; what follows its name is dropped. A sticky
// error is a device::LostError.
absl::Status ToStatus(const DriverTable& driver, CUresult result,
                      absl::string_view call);

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_STATUS_H_
