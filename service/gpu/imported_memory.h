// Allocations of other processes on this GPU, mapped into the daemon: by
// descriptors of virtual memory management, or by handles of legacy IPC.
//
// What names an allocation comes from a client. Nothing of it is believed: the
// size, and the GPU, are those that the driver tells.
#ifndef GEMMD_SERVICE_GPU_IMPORTED_MEMORY_H_
#define GEMMD_SERVICE_GPU_IMPORTED_MEMORY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "service/device/device.h"
#include "service/gpu/context.h"

namespace gemmd::gpu {

// What a device says of its imports: uuid, imports_vmm, imports_ipc.
absl::Status DescribeImports(const Context& context,
                             device::Description& description);

// `context` outlives what is returned; `most_bytes` are those that the GPU has.
// INVALID_ARGUMENT for what the driver does not take, or what is not on this
// GPU.
absl::StatusOr<std::unique_ptr<device::Imported>> ImportMemory(
    const Context* context, const device::ImportHandle& handle,
    int64_t most_bytes);

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_IMPORTED_MEMORY_H_
