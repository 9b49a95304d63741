#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <set>
#include <string>

#include "grpc/reflection/v1alpha/reflection.pb.h"
#include "service/rpc/handler.h"
#include "service/rpc/methods.h"
#include "service/rpc/parse.h"

namespace gemmd::rpc {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1alpha::FileDescriptorResponse;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

// `file` and all that it imports, each once.
void AddFile(const FileDescriptor& file, std::set<std::string>& added,
             FileDescriptorResponse& response) {
  if (!added.insert(file.name()).second) return;
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  response.add_file_descriptor_proto(proto.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) {
    AddFile(*file.dependency(i), added, response);
  }
}

void SetFile(const FileDescriptor* file, ServerReflectionResponse& response) {
  if (file == nullptr) {
    auto& error = *response.mutable_error_response();
    error.set_error_code(grpc::StatusCode::NOT_FOUND);
    error.set_error_message("no such file or symbol");
    return;
  }
  std::set<std::string> added;
  AddFile(*file, added, *response.mutable_file_descriptor_response());
}

ServerReflectionResponse Answer(const ServerReflectionRequest& request) {
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kListServices:
      for (const std::string& name : ServiceNames()) {
        response.mutable_list_services_response()->add_service()->set_name(
            name);
      }
      break;
    case ServerReflectionRequest::kFileByFilename:
      SetFile(pool.FindFileByName(request.file_by_filename()), response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      SetFile(pool.FindFileContainingSymbol(request.file_containing_symbol()),
              response);
      break;
    default: {
      // Extensions: proto3 has none.
      auto& error = *response.mutable_error_response();
      error.set_error_code(grpc::StatusCode::UNIMPLEMENTED);
      error.set_error_message("not served");
      break;
    }
  }
  return response;
}

}  // namespace

Async<absl::Status> Reflect(Runtime&, Call& call) {
  while (true) {
    auto message = co_await ReadNextRequest(call);
    if (!message.ok()) co_return message.status();
    if (!message->has_value()) co_return absl::OkStatus();
    ServerReflectionRequest request;
    CO_RETURN_IF_ERROR(
        Parse(Join((*message)->pieces()), "the request", request));
    const grpc::ByteBuffer reply = Serialize(Answer(request));
    const bool written = co_await call.Write(reply);
    if (!written) co_return absl::CancelledError("the client has gone");
  }
}

}  // namespace gemmd::rpc
