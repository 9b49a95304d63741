// Every method of the inference protocol, and those of models.
#ifndef GEMMD_SERVICE_RPC_KSERVE_METHODS_H_
#define GEMMD_SERVICE_RPC_KSERVE_METHODS_H_

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "gemmd/v1/models.pb.h"
#include "inference/service.pb.h"
#include "service/rpc/handler.h"

namespace gemmd::rpc::kserve {

// Names as FindMethod has them.
std::vector<std::pair<absl::string_view, Method>> Methods();

Async<absl::StatusOr<inference::ServerLiveResponse>> ServerLive(
    Runtime& runtime, Call& call, const inference::ServerLiveRequest& request);
Async<absl::StatusOr<inference::ServerReadyResponse>> ServerReady(
    Runtime& runtime, Call& call, const inference::ServerReadyRequest& request);
Async<absl::StatusOr<inference::ModelReadyResponse>> ModelReady(
    Runtime& runtime, Call& call, const inference::ModelReadyRequest& request);
Async<absl::StatusOr<inference::ServerMetadataResponse>> ServerMetadata(
    Runtime& runtime, Call& call,
    const inference::ServerMetadataRequest& request);
Async<absl::StatusOr<inference::ModelMetadataResponse>> ModelMetadata(
    Runtime& runtime, Call& call,
    const inference::ModelMetadataRequest& request);
Async<absl::StatusOr<inference::ModelConfigResponse>> ModelConfig(
    Runtime& runtime, Call& call, const inference::ModelConfigRequest& request);
Async<absl::StatusOr<inference::ModelStatisticsResponse>> ModelStatistics(
    Runtime& runtime, Call& call,
    const inference::ModelStatisticsRequest& request);
Async<absl::StatusOr<inference::RepositoryIndexResponse>> RepositoryIndex(
    Runtime& runtime, Call& call,
    const inference::RepositoryIndexRequest& request);

Async<absl::Status> ModelInfer(Runtime& runtime, Call& call);
Async<absl::Status> ModelStreamInfer(Runtime& runtime, Call& call);
// Of what the protocol has and this daemon has not.
Async<absl::Status> Unserved(Runtime& runtime, Call& call);

Async<absl::StatusOr<v1::Model>> CreateModel(
    Runtime& runtime, Call& call, const v1::CreateModelRequest& request);
Async<absl::StatusOr<v1::ListModelsResponse>> ListModels(
    Runtime& runtime, Call& call, const v1::ListModelsRequest& request);
Async<absl::StatusOr<v1::DeleteModelResponse>> DeleteModel(
    Runtime& runtime, Call& call, const v1::DeleteModelRequest& request);

}  // namespace gemmd::rpc::kserve

#endif  // GEMMD_SERVICE_RPC_KSERVE_METHODS_H_
