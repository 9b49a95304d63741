// gRPC's own log lines, which it would write to standard error from any
// thread, waiting where that is a pipe that nobody reads.
#ifndef GEMMD_SERVICE_RPC_GRPC_LOG_H_
#define GEMMD_SERVICE_RPC_GRPC_LOG_H_

namespace gemmd::rpc {

// From now on they are lines of service/log. Before gRPC is used.
void RedirectGrpcLog();

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_GRPC_LOG_H_
