#include "service/gpu/graph.h"

#include "service/gpu/status.h"

namespace gemmd::gpu {

absl::StatusOr<Graph> Graph::Capture(
    const Stream& stream, const std::function<absl::Status()>& enqueue) {
  const DriverTable& driver = stream.driver();
  RETURN_IF_CUDA_ERROR(
      driver,
      cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  const absl::Status enqueued = enqueue();
  // Ends the capture in any case: a stream left capturing is of no use.
  CUgraph captured = nullptr;
  const CUresult ended = driver.cuStreamEndCapture(stream.get(), &captured);
  const UniqueHandle<CUgraph, &DriverTable::cuGraphDestroy> owner(
      &stream.context(), captured);
  RETURN_IF_ERROR(enqueued);
  RETURN_IF_ERROR(ToStatus(driver, ended, "cuStreamEndCapture"));
  CUgraphExec executable;
  RETURN_IF_CUDA_ERROR(driver, cuGraphInstantiate(&executable, captured, 0));
  Graph graph;
  graph.executable_ = Executable(&stream.context(), executable);
  RETURN_IF_CUDA_ERROR(driver, cuGraphUpload(executable, stream.get()));
  return graph;
}

absl::Status Graph::Launch(const Stream& stream) const {
  RETURN_IF_CUDA_ERROR(stream.driver(),
                       cuGraphLaunch(executable_.get(), stream.get()));
  return absl::OkStatus();
}

}  // namespace gemmd::gpu
