// TensorMapSpec + device pointer -> the 128 bytes that the tensor memory
// accelerator reads. Pure host work, thread-safe.
#ifndef GEMMD_SERVICE_GPU_TENSOR_MAP_H_
#define GEMMD_SERVICE_GPU_TENSOR_MAP_H_

#include <cstdint>
#include <tuple>

#include "absl/container/flat_hash_map.h"
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

// Maps that were encoded once: products of the same tensors, again and again,
// find theirs in less time. Nothing but its key makes a map, so none is ever
// out of date. Thread-compatible.
class TensorMaps {
 public:
  // As EncodeTensorMap.
  absl::StatusOr<TensorMap> Of(const DriverTable& driver,
                               const jit::TensorMapSpec& spec,
                               CUdeviceptr pointer);

 private:
  // The pointer, and what a spec has.
  using Key = std::tuple<CUdeviceptr, jit::DataType, int64_t, int64_t, int64_t,
                         int64_t, int64_t, int, int, int, bool>;

  absl::flat_hash_map<Key, TensorMap> maps_;
};

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_TENSOR_MAP_H_
