// Tells gRPC which services there are, for reflection, while every call goes
// to the generic service: one way in for all methods, and messages that are
// never joined.
#ifndef GEMMD_SERVICE_RPC_GENERIC_SERVICES_H_
#define GEMMD_SERVICE_RPC_GENERIC_SERVICES_H_

#include <grpcpp/server_builder.h>

#include <memory>

namespace gemmd::rpc {

class GenericServices {
 public:
  GenericServices();
  ~GenericServices();

  // Before the server is built; outlives the server.
  void Register(grpc::ServerBuilder& builder);

 private:
  struct Services;

  const std::unique_ptr<Services> services_;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_GENERIC_SERVICES_H_
