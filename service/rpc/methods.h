// Every method, one file each. What may be long is answered as the bytes of its
// message, which are made in the background.
#ifndef GEMMD_SERVICE_RPC_METHODS_H_
#define GEMMD_SERVICE_RPC_METHODS_H_

#include <grpcpp/support/byte_buffer.h>

#include "absl/status/statusor.h"
#include "gemmd/v1/kernels.pb.h"
#include "gemmd/v1/matmul.pb.h"
#include "gemmd/v1/regions.pb.h"
#include "gemmd/v1/server.pb.h"
#include "gemmd/v1/tensors.pb.h"
#include "grpc/health/v1/health.pb.h"
#include "service/rpc/async.h"
#include "service/rpc/call.h"
#include "service/rpc/runtime.h"

namespace gemmd::rpc {

Async<absl::Status> Matmul(Runtime& runtime, Call& call);
Async<absl::Status> MatmulGrouped(Runtime& runtime, Call& call);
Async<absl::Status> Sequence(Runtime& runtime, Call& call);
Async<absl::Status> MatmulStream(Runtime& runtime, Call& call);

Async<absl::StatusOr<v1::TensorInfo>> CreateTensor(
    Runtime& runtime, Call& call, const v1::CreateTensorRequest& request);
Async<absl::Status> UploadTensor(Runtime& runtime, Call& call);
Async<absl::Status> DownloadTensor(Runtime& runtime, Call& call);
Async<absl::StatusOr<v1::TensorInfo>> DescribeTensor(
    Runtime& runtime, Call& call, const v1::DescribeTensorRequest& request);
Async<absl::StatusOr<grpc::ByteBuffer>> ListTensors(
    Runtime& runtime, Call& call, const v1::ListTensorsRequest& request);
Async<absl::StatusOr<v1::DeleteTensorResponse>> DeleteTensor(
    Runtime& runtime, Call& call, const v1::DeleteTensorRequest& request);

Async<absl::StatusOr<v1::RegionInfo>> CreateRegion(
    Runtime& runtime, Call& call, const v1::CreateRegionRequest& request);

Async<absl::StatusOr<v1::PrepareKernelsResponse>> PrepareKernels(
    Runtime& runtime, Call& call, const v1::PrepareKernelsRequest& request);
Async<absl::StatusOr<grpc::ByteBuffer>> ListKernels(
    Runtime& runtime, Call& call, const v1::ListKernelsRequest& request);
Async<absl::StatusOr<grpc::ByteBuffer>> DescribeKernel(
    Runtime& runtime, Call& call, const v1::DescribeKernelRequest& request);
Async<absl::StatusOr<v1::EvictKernelResponse>> EvictKernel(
    Runtime& runtime, Call& call, const v1::EvictKernelRequest& request);
Async<absl::Status> TuneKernels(Runtime& runtime, Call& call);

Async<absl::StatusOr<v1::ServerInfo>> GetServerInfo(
    Runtime& runtime, Call& call, const v1::GetServerInfoRequest& request);
Async<absl::StatusOr<v1::Statistics>> GetStatistics(
    Runtime& runtime, Call& call, const v1::GetStatisticsRequest& request);

// grpc.health.v1. The service "" is the daemon.
Async<absl::StatusOr<grpc::health::v1::HealthCheckResponse>> CheckHealth(
    Runtime& runtime, Call& call,
    const grpc::health::v1::HealthCheckRequest& request);
Async<absl::Status> WatchHealth(Runtime& runtime, Call& call);

// grpc.reflection.v1 and v1alpha.
Async<absl::Status> Reflect(Runtime& runtime, Call& call);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_METHODS_H_
