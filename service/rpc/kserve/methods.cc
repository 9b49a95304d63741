#include "service/rpc/kserve/methods.h"

#include "absl/strings/str_cat.h"

namespace gemmd::rpc::kserve {
namespace {

using identity::Access;
using namespace inference;

}  // namespace

std::vector<std::pair<absl::string_view, Method>> Methods() {
  return {
      {"/inference.GRPCInferenceService/ServerLive",
       {Unary<ServerLiveRequest, ServerLiveResponse, ServerLive>,
        Access::kOpen}},
      {"/inference.GRPCInferenceService/ServerReady",
       {Unary<ServerReadyRequest, ServerReadyResponse, ServerReady>,
        Access::kOpen}},
      {"/inference.GRPCInferenceService/ModelReady",
       {Unary<ModelReadyRequest, ModelReadyResponse, ModelReady>,
        Access::kAnyPrincipal}},
      {"/inference.GRPCInferenceService/ServerMetadata",
       {Unary<ServerMetadataRequest, ServerMetadataResponse, ServerMetadata>,
        Access::kAnyPrincipal}},
      {"/inference.GRPCInferenceService/ModelMetadata",
       {Unary<ModelMetadataRequest, ModelMetadataResponse, ModelMetadata>,
        Access::kAnyPrincipal}},
      {"/inference.GRPCInferenceService/ModelConfig",
       {Unary<ModelConfigRequest, ModelConfigResponse, kserve::ModelConfig>,
        Access::kAnyPrincipal}},
      {"/inference.GRPCInferenceService/ModelInfer",
       {Counted<ModelInfer>, Access::kCompute}},
      {"/inference.GRPCInferenceService/ModelStreamInfer",
       {ModelStreamInfer, Access::kCompute}},
      {"/inference.GRPCInferenceService/ModelStatistics",
       {Unary<ModelStatisticsRequest, ModelStatisticsResponse,
              kserve::ModelStatistics>,
        Access::kAnyPrincipal}},
      {"/inference.GRPCInferenceService/RepositoryIndex",
       {Unary<RepositoryIndexRequest, RepositoryIndexResponse, RepositoryIndex>,
        Access::kAnyPrincipal}},
      {"/inference.GRPCInferenceService/RepositoryModelLoad",
       {kserve::Unserved, Access::kAnyPrincipal}},
      {"/inference.GRPCInferenceService/RepositoryModelUnload",
       {kserve::Unserved, Access::kAnyPrincipal}},
      {"/inference.GRPCInferenceService/SystemSharedMemoryStatus",
       {kserve::Unserved, Access::kAnyPrincipal}},
      {"/inference.GRPCInferenceService/SystemSharedMemoryRegister",
       {kserve::Unserved, Access::kAnyPrincipal}},
      {"/inference.GRPCInferenceService/SystemSharedMemoryUnregister",
       {kserve::Unserved, Access::kAnyPrincipal}},
      {"/inference.GRPCInferenceService/CudaSharedMemoryStatus",
       {kserve::Unserved, Access::kAnyPrincipal}},
      {"/inference.GRPCInferenceService/CudaSharedMemoryRegister",
       {kserve::Unserved, Access::kAnyPrincipal}},
      {"/inference.GRPCInferenceService/CudaSharedMemoryUnregister",
       {kserve::Unserved, Access::kAnyPrincipal}},
      {"/inference.GRPCInferenceService/TraceSetting",
       {kserve::Unserved, Access::kAnyPrincipal}},
      {"/inference.GRPCInferenceService/LogSettings",
       {kserve::Unserved, Access::kAnyPrincipal}},
      {"/gemmd.v1.ModelService/CreateModel",
       {Unary<v1::CreateModelRequest, v1::Model, CreateModel>,
        Access::kTensors}},
      {"/gemmd.v1.ModelService/ListModels",
       {Unary<v1::ListModelsRequest, v1::ListModelsResponse, ListModels>,
        Access::kAnyPrincipal}},
      {"/gemmd.v1.ModelService/DeleteModel",
       {Unary<v1::DeleteModelRequest, v1::DeleteModelResponse, DeleteModel>,
        Access::kTensors}},
  };
}

}  // namespace gemmd::rpc::kserve
