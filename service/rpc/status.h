// absl::Status -> grpc::Status.
#ifndef GEMMD_SERVICE_RPC_STATUS_H_
#define GEMMD_SERVICE_RPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace gemmd::rpc {

// The message is cut where it would not fit into HTTP/2 header limits.
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_STATUS_H_
