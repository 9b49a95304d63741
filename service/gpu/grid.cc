#include "service/gpu/grid.h"

#include "absl/strings/str_cat.h"
#include "service/gpu/status.h"

namespace gemmd::gpu {
namespace {

CUlaunchAttribute ClustersOf(int ctas) {
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim.x = static_cast<unsigned>(ctas);
  attribute.value.clusterDim.y = 1;
  attribute.value.clusterDim.z = 1;
  return attribute;
}

CUlaunchConfig ConfigOf(const Grid& grid) {
  CUlaunchConfig config = {};
  config.gridDimX = static_cast<unsigned>(grid.ctas);
  config.gridDimY = 1;
  config.gridDimZ = 1;
  config.blockDimX = static_cast<unsigned>(grid.threads);
  config.blockDimY = 1;
  config.blockDimZ = 1;
  config.sharedMemBytes = static_cast<unsigned>(grid.shared_memory_bytes);
  return config;
}

bool Overlaps(Start start, const Stream& stream) {
  return start == Start::kAnywhere ||
         (start == Start::kInOrder && !stream.starts_next_early());
}

}  // namespace

absl::Status EnqueueGrid(const Stream& stream, CUfunction function,
                         const Grid& grid, const void* argument) {
  CUlaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (Overlaps(grid.start, stream)) {
    CUlaunchAttribute& attribute = attributes[count++];
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
  }
  if (grid.cluster > 1) attributes[count++] = ClustersOf(grid.cluster);
  CUlaunchConfig config = ConfigOf(grid);
  config.hStream = stream.get();
  config.attrs = attributes;
  config.numAttrs = count;
  void* parameters[] = {const_cast<void*>(argument)};
  RETURN_IF_CUDA_ERROR(stream.driver(), cuLaunchKernelEx(&config, function,
                                                         parameters, nullptr));
  stream.set_starts_next_early(grid.starts_next_early);
  return absl::OkStatus();
}

absl::Status CheckCluster(const DriverTable& driver, CUfunction function,
                          const Grid& grid) {
  if (grid.cluster == 1) return absl::OkStatus();
  CUlaunchAttribute attribute = ClustersOf(grid.cluster);
  CUlaunchConfig config = ConfigOf(grid);
  config.gridDimX = static_cast<unsigned>(grid.cluster);
  config.attrs = &attribute;
  config.numAttrs = 1;
  int at_once = 0;
  RETURN_IF_CUDA_ERROR(
      driver, cuOccupancyMaxActiveClusters(&at_once, function, &config));
  if (at_once > 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("The device runs no clusters of ", grid.cluster, " CTAs of ",
                   grid.shared_memory_bytes, " bytes of shared memory"));
}

}  // namespace gemmd::gpu
