#include "clients/cpp/status.h"

namespace gemmd::client {
namespace {

constexpr bool Same(grpc::StatusCode grpc_code, absl::StatusCode absl_code) {
  return static_cast<int>(grpc_code) == static_cast<int>(absl_code);
}

static_assert(Same(grpc::OK, absl::StatusCode::kOk));
static_assert(Same(grpc::CANCELLED, absl::StatusCode::kCancelled));
static_assert(Same(grpc::UNKNOWN, absl::StatusCode::kUnknown));
static_assert(Same(grpc::INVALID_ARGUMENT, absl::StatusCode::kInvalidArgument));
static_assert(Same(grpc::DEADLINE_EXCEEDED,
                   absl::StatusCode::kDeadlineExceeded));
static_assert(Same(grpc::NOT_FOUND, absl::StatusCode::kNotFound));
static_assert(Same(grpc::ALREADY_EXISTS, absl::StatusCode::kAlreadyExists));
static_assert(Same(grpc::PERMISSION_DENIED,
                   absl::StatusCode::kPermissionDenied));
static_assert(Same(grpc::RESOURCE_EXHAUSTED,
                   absl::StatusCode::kResourceExhausted));
static_assert(Same(grpc::FAILED_PRECONDITION,
                   absl::StatusCode::kFailedPrecondition));
static_assert(Same(grpc::ABORTED, absl::StatusCode::kAborted));
static_assert(Same(grpc::OUT_OF_RANGE, absl::StatusCode::kOutOfRange));
static_assert(Same(grpc::UNIMPLEMENTED, absl::StatusCode::kUnimplemented));
static_assert(Same(grpc::INTERNAL, absl::StatusCode::kInternal));
static_assert(Same(grpc::UNAVAILABLE, absl::StatusCode::kUnavailable));
static_assert(Same(grpc::DATA_LOSS, absl::StatusCode::kDataLoss));
static_assert(Same(grpc::UNAUTHENTICATED, absl::StatusCode::kUnauthenticated));

}  // namespace

absl::Status ToStatus(const grpc::Status& status) {
  // What gRPC's server says of a call that comes as it ends and that nobody
  // takes. What this client cancels had an error of its own before.
  if (status.error_code() == grpc::CANCELLED &&
      status.error_message() == "CANCELLED") {
    return absl::UnavailableError("the daemon is shutting down");
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
}

}  // namespace gemmd::client
