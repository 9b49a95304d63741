// A CUDA graph captured from a stream: many launches replayed as one, so that
// the host's launch cost is not in the timing.
#ifndef GEMMD_TESTS_BENCH_GRAPH_H_
#define GEMMD_TESTS_BENCH_GRAPH_H_

#include <functional>

#include "absl/status/statusor.h"
#include "service/gpu/stream.h"

namespace gemmd::bench {

class Graph {
 public:
  Graph() = default;

  // Captures what `enqueue` enqueues on `stream`.
  static absl::StatusOr<Graph> Capture(
      const gpu::Stream& stream, const std::function<absl::Status()>& enqueue);

  absl::Status Launch(const gpu::Stream& stream) const;

 private:
  using Executable =
      gpu::UniqueHandle<CUgraphExec, &gpu::DriverTable::cuGraphExecDestroy>;

  Executable executable_;
};

}  // namespace gemmd::bench

#endif  // GEMMD_TESTS_BENCH_GRAPH_H_
