#include "clients/cpp/unary.h"

#include <grpcpp/generic/generic_stub.h>

#include "clients/cpp/status.h"

namespace gemmd::client {

absl::StatusOr<grpc::ByteBuffer> CallRaw(
    const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
    grpc::ClientContext& context, const grpc::ByteBuffer& request) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (!status.ok()) return ToStatus(status);
  return response;
}

void Announce(grpc::ClientContext& context, size_t bytes) {
  // Smaller ones are read in any case.
  constexpr size_t kWorthwhileBytes = 64 << 10;
  if (bytes <= kWorthwhileBytes) return;
  context.AddMetadata("gemmd-message-bytes", std::to_string(bytes));
}

}  // namespace gemmd::client
