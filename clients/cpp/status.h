// gRPC status -> absl::Status. The codes have the same numbers; what comes as
// the daemon ends is UNAVAILABLE.
#ifndef GEMMD_CLIENTS_CPP_STATUS_H_
#define GEMMD_CLIENTS_CPP_STATUS_H_

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"

namespace gemmd::client {

absl::Status ToStatus(const grpc::Status& status);

}  // namespace gemmd::client

#endif  // GEMMD_CLIENTS_CPP_STATUS_H_
