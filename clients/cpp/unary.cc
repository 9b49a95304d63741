#include "clients/cpp/unary.h"

#include <grpcpp/generic/generic_stub.h>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "clients/cpp/checksums.h"
#include "clients/cpp/status.h"
#include "jit/base/status.h"
#include "proto/checksum/checksum.h"

namespace gemmd::client {

absl::StatusOr<grpc::ByteBuffer> CallRaw(
    const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
    grpc::ClientContext& context, const grpc::ByteBuffer& request,
    bool checksums) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  if (checksums) AnnounceChecksums(context);
  const auto call = stub.PrepareUnaryCall(
      &context, method, checksums ? AddChecksum(request) : request, &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (!status.ok()) return ToStatus(status);
  if (checksums) RETURN_IF_ERROR(CheckChecksum(response));
  return response;
}

void Announce(grpc::ClientContext& context, size_t bytes, bool checksums) {
  // Smaller ones are read in any case.
  constexpr size_t kWorthwhileBytes = 64 << 10;
  if (bytes <= kWorthwhileBytes) return;
  if (checksums) bytes += checksum::kBytes;
  context.AddMetadata("gemmd-message-bytes", std::to_string(bytes));
}

absl::Status SetKey(grpc::ClientContext& context, const std::string& key) {
  if (key.empty()) return absl::OkStatus();
  const bool visible = absl::c_all_of(
      key, [](unsigned char c) { return absl::ascii_isgraph(c); });
  if (!visible) {
    return absl::InvalidArgumentError(
        "idempotency_key has a space, or a character that is not printable "
        "ASCII; allowed: 16 to 64 printable ASCII characters without spaces, "
        "drawn at random");
  }
  context.AddMetadata("gemmd-idempotency-key", key);
  return absl::OkStatus();
}

}  // namespace gemmd::client
