// Which models there are, and what they take.
#include "service/rpc/kserve/datatype.h"
#include "service/rpc/kserve/find_model.h"
#include "service/rpc/kserve/methods.h"
#include "service/rpc/kserve/model_view.h"

namespace gemmd::rpc::kserve {
namespace {

using inference::ModelMetadataResponse;

void Describe(const TensorView& view,
              ModelMetadataResponse::TensorMetadata& to) {
  to.set_name(view.name);
  to.set_datatype(std::string(NameOf(view.type)));
  to.mutable_shape()->Add(view.shape.begin(), view.shape.end());
}

ModelMetadataResponse ToMetadata(const models::Model& model) {
  const ModelView view = ViewOf(model);
  ModelMetadataResponse response;
  response.set_name(model.spec().name);
  response.add_versions(Version());
  response.set_platform(kPlatform);
  for (const TensorView& input : view.inputs) {
    Describe(input, *response.add_inputs());
  }
  Describe(view.output, *response.add_outputs());
  return response;
}

inference::ModelConfig ToConfig(const models::Model& model) {
  const ModelView view = ViewOf(model);
  inference::ModelConfig config;
  config.set_name(model.spec().name);
  config.set_platform(kPlatform);
  config.set_backend(kPlatform);
  for (const TensorView& input : view.inputs) {
    inference::ModelInput& to = *config.add_input();
    to.set_name(input.name);
    to.set_data_type(ConfigOf(input.type));
    to.mutable_dims()->Add(input.shape.begin(), input.shape.end());
    to.set_optional(input.optional);
  }
  inference::ModelOutput& to = *config.add_output();
  to.set_name(view.output.name);
  to.set_data_type(ConfigOf(view.output.type));
  to.mutable_dims()->Add(view.output.shape.begin(), view.output.shape.end());
  return config;
}

}  // namespace

Async<absl::StatusOr<inference::ModelReadyResponse>> ModelReady(
    Runtime& runtime, Call& call, const inference::ModelReadyRequest& request) {
  inference::ModelReadyResponse response;
  response.set_ready(
      runtime.health.serving() &&
      FindModel(runtime, call, request.name(), request.version()).ok());
  co_return response;
}

Async<absl::StatusOr<ModelMetadataResponse>> ModelMetadata(
    Runtime& runtime, Call& call,
    const inference::ModelMetadataRequest& request) {
  CO_ASSIGN_OR_RETURN(
      const models::ModelPointer model,
      FindModel(runtime, call, request.name(), request.version()));
  co_return ToMetadata(*model);
}

Async<absl::StatusOr<inference::ModelConfigResponse>> ModelConfig(
    Runtime& runtime, Call& call,
    const inference::ModelConfigRequest& request) {
  CO_ASSIGN_OR_RETURN(
      const models::ModelPointer model,
      FindModel(runtime, call, request.name(), request.version()));
  inference::ModelConfigResponse response;
  *response.mutable_config() = ToConfig(*model);
  co_return response;
}

Async<absl::StatusOr<inference::RepositoryIndexResponse>> RepositoryIndex(
    Runtime& runtime, Call& call,
    const inference::RepositoryIndexRequest& request) {
  if (!request.repository_name().empty()) {
    co_return absl::NotFoundError(
        "there is no such repository; allowed: \"\", all models");
  }
  inference::RepositoryIndexResponse response;
  for (const auto& model : runtime.models.ListOf(WhoCounts(call))) {
    auto& to = *response.add_models();
    to.set_name(model->spec().name);
    to.set_version(Version());
    to.set_state("READY");
  }
  co_return response;
}

}  // namespace gemmd::rpc::kserve
