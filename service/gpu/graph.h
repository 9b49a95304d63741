// A CUDA graph captured from a stream: many launches replayed as one, so that
// the host's launch cost is not in the timing.
#ifndef GEMMD_SERVICE_GPU_GRAPH_H_
#define GEMMD_SERVICE_GPU_GRAPH_H_

#include <functional>

#include "absl/status/statusor.h"
#include "service/gpu/stream.h"

namespace gemmd::gpu {

class Graph {
 public:
  Graph() = default;

  // Captures what `enqueue` enqueues on `stream`.
  static absl::StatusOr<Graph> Capture(
      const Stream& stream, const std::function<absl::Status()>& enqueue);

  absl::Status Launch(const Stream& stream) const;

 private:
  using Executable =
      UniqueHandle<CUgraphExec, &DriverTable::cuGraphExecDestroy>;

  Executable executable_;
};

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_GRAPH_H_
