// How the daemon has gRPC serve. The benchmark of the wire serves alike.
#ifndef GEMMD_SERVICE_RPC_GRPC_SETTINGS_H_
#define GEMMD_SERVICE_RPC_GRPC_SETTINGS_H_

#include <grpcpp/server_builder.h>

#include "service/rpc/limits.h"

namespace gemmd::rpc {

void SetLimits(const Limits& limits, grpc::ServerBuilder& builder);

// Completion queues, and threads that poll them: one for two cores, 2 to 8.
int DefaultLoops();

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_GRPC_SETTINGS_H_
