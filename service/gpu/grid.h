// Launches of kernels that have one parameter, and how each grid follows the
// one before it on its stream (programmatic dependent launch).
#ifndef GEMMD_SERVICE_GPU_GRID_H_
#define GEMMD_SERVICE_GPU_GRID_H_

#include "absl/status/status.h"
#include "service/gpu/driver_table.h"
#include "service/gpu/stream.h"

namespace gemmd::gpu {

enum class Start {
  kAlone,  // When the one before has ended.
  // The others are of kernels that wait (griddepcontrol.wait) before they touch
  // memory.
  kInOrder,   // Placed as that one ends: its CTAs lie as if it were alone.
  kAnywhere,  // Placed wherever there is room, as soon as that one lets it.
};

struct Grid {
  int ctas;
  int threads;
  int shared_memory_bytes = 0;
  int cluster = 1;
  Start start = Start::kAnywhere;
  bool starts_next_early = true;  // As the kernel does.
};

// Launches `function` with the parameter at `argument`, which is copied. The
// stream's context is current.
absl::Status EnqueueGrid(const Stream& stream, CUfunction function,
                         const Grid& grid, const void* argument);

// FAILED_PRECONDITION where the device has no room for one of its clusters.
absl::Status CheckCluster(const DriverTable& driver, CUfunction function,
                          const Grid& grid);

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_GRID_H_
