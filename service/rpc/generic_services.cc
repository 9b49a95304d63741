#include "service/rpc/generic_services.h"

#include "gemmd/v1/kernels.grpc.pb.h"
#include "gemmd/v1/matmul.grpc.pb.h"
#include "gemmd/v1/server.grpc.pb.h"
#include "gemmd/v1/tensors.grpc.pb.h"

namespace gemmd::rpc {
namespace {

// `Service` with all its methods left to the generic service.
template <typename Service>
class AllGeneric final : public Service::Service {
 public:
  explicit AllGeneric(int methods) {
    for (int i = 0; i < methods; ++i) this->MarkMethodGeneric(i);
  }
};

}  // namespace

struct GenericServices::Services {
  AllGeneric<v1::MatmulService> matmul{2};
  AllGeneric<v1::TensorService> tensors{6};
  AllGeneric<v1::KernelService> kernels{4};
  AllGeneric<v1::ServerService> server{2};
};

GenericServices::GenericServices() : services_(new Services) {}
GenericServices::~GenericServices() = default;

void GenericServices::Register(grpc::ServerBuilder& builder) {
  builder.RegisterService(&services_->matmul);
  builder.RegisterService(&services_->tensors);
  builder.RegisterService(&services_->kernels);
  builder.RegisterService(&services_->server);
}

}  // namespace gemmd::rpc
