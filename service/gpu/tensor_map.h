// TensorMapSpec + device pointer -> the 128 bytes that the tensor memory
// accelerator reads. Pure host work, thread-safe.
#ifndef GEMMD_SERVICE_GPU_TENSOR_MAP_H_
#define GEMMD_SERVICE_GPU_TENSOR_MAP_H_

#include "absl/status/statusor.h"
#include "jit/plan/plan.h"
#include "service/gpu/driver_table.h"
#include "templates/common/arguments.h"

namespace gemmd::gpu {

// `pointer` is 16-byte aligned. Elements outside the matrix read as zero and
// are not written. INTERNAL naming the spec when the driver refuses it: specs
// come from the planner, so that is a bug.
absl::StatusOr<TensorMap> EncodeTensorMap(const DriverTable& driver,
                                          const jit::TensorMapSpec& spec,
                                          CUdeviceptr pointer);

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_TENSOR_MAP_H_
