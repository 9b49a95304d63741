// The Client methods of ModelService.
#include "clients/cpp/client.h"
#include "clients/cpp/status.h"
#include "jit/base/status.h"

namespace gemmd::client {

absl::StatusOr<v1::Model> Client::CreateModel(
    const v1::CreateModelRequest& request) {
  grpc::ClientContext context;
  Prepare(context, absl::ZeroDuration());
  v1::Model model;
  RETURN_IF_ERROR(ToStatus(models_->CreateModel(&context, request, &model)));
  return model;
}

absl::StatusOr<v1::ListModelsResponse> Client::ListModels() {
  grpc::ClientContext context;
  Prepare(context, absl::ZeroDuration());
  v1::ListModelsResponse models;
  RETURN_IF_ERROR(ToStatus(models_->ListModels(&context, {}, &models)));
  return models;
}

absl::Status Client::DeleteModel(const std::string& name) {
  grpc::ClientContext context;
  Prepare(context, absl::ZeroDuration());
  v1::DeleteModelRequest request;
  request.set_name(name);
  v1::DeleteModelResponse response;
  return ToStatus(models_->DeleteModel(&context, request, &response));
}

}  // namespace gemmd::client
