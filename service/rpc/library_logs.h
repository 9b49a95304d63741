// What gRPC and protobuf log, which they would write to standard error from
// any thread, waiting where that is a pipe that nobody reads.
#ifndef GEMMD_SERVICE_RPC_LIBRARY_LOGS_H_
#define GEMMD_SERVICE_RPC_LIBRARY_LOGS_H_

namespace gemmd::rpc {

// From now on these are lines of service/log. Before gRPC is used.
void RedirectLibraryLogs();

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_LIBRARY_LOGS_H_
