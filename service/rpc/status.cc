#include "service/rpc/status.h"

#include <string>

namespace gemmd::rpc {
namespace {

// Both follow google.rpc.Code, so that a cast is the conversion.
constexpr bool Same(absl::StatusCode ours, grpc::StatusCode theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}
using absl::StatusCode;
static_assert(Same(StatusCode::kOk, grpc::OK));
static_assert(Same(StatusCode::kCancelled, grpc::CANCELLED));
static_assert(Same(StatusCode::kUnknown, grpc::UNKNOWN));
static_assert(Same(StatusCode::kInvalidArgument, grpc::INVALID_ARGUMENT));
static_assert(Same(StatusCode::kDeadlineExceeded, grpc::DEADLINE_EXCEEDED));
static_assert(Same(StatusCode::kNotFound, grpc::NOT_FOUND));
static_assert(Same(StatusCode::kAlreadyExists, grpc::ALREADY_EXISTS));
static_assert(Same(StatusCode::kPermissionDenied, grpc::PERMISSION_DENIED));
static_assert(Same(StatusCode::kResourceExhausted, grpc::RESOURCE_EXHAUSTED));
static_assert(Same(StatusCode::kFailedPrecondition, grpc::FAILED_PRECONDITION));
static_assert(Same(StatusCode::kAborted, grpc::ABORTED));
static_assert(Same(StatusCode::kOutOfRange, grpc::OUT_OF_RANGE));
static_assert(Same(StatusCode::kUnimplemented, grpc::UNIMPLEMENTED));
static_assert(Same(StatusCode::kInternal, grpc::INTERNAL));
static_assert(Same(StatusCode::kUnavailable, grpc::UNAVAILABLE));
static_assert(Same(StatusCode::kDataLoss, grpc::DATA_LOSS));
static_assert(Same(StatusCode::kUnauthenticated, grpc::UNAUTHENTICATED));

// gRPC peers take 8 KiB of metadata by default, and a byte may be encoded in
// three.
constexpr size_t kMaxMessageBytes = 2048;

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  std::string message(status.message());
  if (message.size() > kMaxMessageBytes) {
    message.resize(kMaxMessageBytes);
    message += " ...";
  }
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message);
}

}  // namespace gemmd::rpc
