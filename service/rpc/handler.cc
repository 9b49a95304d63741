#include "service/rpc/handler.h"

#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "service/rpc/kserve/methods.h"
#include "service/rpc/methods.h"
#include "service/rpc/parse.h"
#include "service/rpc/problem_list.h"

namespace gemmd::rpc {
namespace {

using identity::Access;
using Methods = absl::flat_hash_map<absl::string_view, Method>;

Methods OwnMethods() {
  return {
      {"/gemmd.v1.MatmulService/Matmul", {Counted<Matmul>, Access::kCompute}},
      {"/gemmd.v1.MatmulService/MatmulGrouped",
       {Counted<MatmulGrouped>, Access::kCompute}},
      {"/gemmd.v1.MatmulService/Sequence",
       {Counted<Sequence>, Access::kCompute}},
      {"/gemmd.v1.MatmulService/MatmulStream",
       {Counted<MatmulStream>, Access::kCompute}},
      {"/gemmd.v1.TensorService/CreateTensor",
       {Unary<v1::CreateTensorRequest, v1::TensorInfo, CreateTensor>,
        Access::kTensors}},
      {"/gemmd.v1.TensorService/UploadTensor",
       {UploadTensor, Access::kTensors}},
      {"/gemmd.v1.TensorService/DownloadTensor",
       {DownloadTensor, Access::kTensors}},
      {"/gemmd.v1.TensorService/DescribeTensor",
       {Unary<v1::DescribeTensorRequest, v1::TensorInfo, DescribeTensor>,
        Access::kTensors}},
      {"/gemmd.v1.TensorService/ListTensors",
       {Unary<v1::ListTensorsRequest, grpc::ByteBuffer, ListTensors>,
        Access::kTensors}},
      {"/gemmd.v1.TensorService/DeleteTensor",
       {Unary<v1::DeleteTensorRequest, v1::DeleteTensorResponse, DeleteTensor>,
        Access::kTensors}},
      {"/gemmd.v1.RegionService/CreateRegion",
       {Unary<v1::CreateRegionRequest, v1::RegionInfo, CreateRegion>,
        Access::kCompute}},
      {"/gemmd.v1.KernelService/PrepareKernels",
       {Unary<v1::PrepareKernelsRequest, v1::PrepareKernelsResponse,
              PrepareKernels, CheckProblemCount>,
        Access::kKernels}},
      {"/gemmd.v1.KernelService/ListKernels",
       {Unary<v1::ListKernelsRequest, grpc::ByteBuffer, ListKernels>,
        Access::kKernels}},
      {"/gemmd.v1.KernelService/DescribeKernel",
       {Unary<v1::DescribeKernelRequest, grpc::ByteBuffer, DescribeKernel>,
        Access::kKernels}},
      {"/gemmd.v1.KernelService/EvictKernel",
       {Unary<v1::EvictKernelRequest, v1::EvictKernelResponse, EvictKernel>,
        Access::kAdmin}},
      {"/gemmd.v1.KernelService/TuneKernels", {TuneKernels, Access::kAdmin}},
      {"/gemmd.v1.ServerService/GetServerInfo",
       {Unary<v1::GetServerInfoRequest, v1::ServerInfo, GetServerInfo>,
        Access::kAnyPrincipal}},
      {"/gemmd.v1.ServerService/GetStatistics",
       {Unary<v1::GetStatisticsRequest, v1::Statistics, GetStatistics>,
        Access::kAnyPrincipal}},
      {"/grpc.health.v1.Health/Check",
       {Unary<grpc::health::v1::HealthCheckRequest,
              grpc::health::v1::HealthCheckResponse, CheckHealth>,
        Access::kOpen}},
      {"/grpc.health.v1.Health/Watch", {WatchHealth, Access::kOpen}},
      {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
       {Reflect, Access::kAnyPrincipal}},
      {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
       {Reflect, Access::kAnyPrincipal}},
  };
}

const Methods& AllMethods() {
  static const auto& methods = *[] {
    auto* const all = new Methods(OwnMethods());
    for (const auto& method : kserve::Methods()) all->insert(method);
    return all;
  }();
  return methods;
}

}  // namespace

const Method* FindMethod(absl::string_view name) {
  const auto found = AllMethods().find(name);
  return found == AllMethods().end() ? nullptr : &found->second;
}

std::vector<std::string> MethodNames() {
  std::vector<std::string> names;
  for (const auto& [name, method] : AllMethods()) {
    names.emplace_back(name);
  }
  return names;
}

std::vector<std::string> ServiceNames() {
  std::set<std::string> names;
  for (const auto& [name, method] : AllMethods()) {
    names.emplace(name.substr(1, name.rfind('/') - 1));
  }
  return std::vector<std::string>(names.begin(), names.end());
}

Async<absl::StatusOr<std::optional<Message>>> ReadMessage(Call& call,
                                                          int64_t limit) {
  int64_t announced = 0;
  if (limit > kMaxSmallMessageBytes) {
    announced = HeldBytes(call.metadata().announced_bytes());
    if (announced > limit) {
      call.metrics().Rejected(Rejection::kMessageSize);
      co_return absl::ResourceExhaustedError(absl::StrCat(
          "the message has ", announced, " bytes; allowed: ", limit));
    }
    absl::Status taken = co_await call.TakeRequest(announced);
    if (!taken.ok()) co_return taken;
  }
  auto message = co_await call.Read(limit, announced);
  co_return message;
}

Async<absl::StatusOr<std::shared_ptr<const Message>>> ReadKept(Call& call,
                                                               int64_t limit) {
  auto message = co_await ReadMessage(call, limit);
  if (!message.ok()) co_return message.status();
  if (!message->has_value()) {
    co_return absl::InvalidArgumentError("the request message is missing");
  }
  co_return std::make_shared<const Message>(std::move(**message));
}

Async<absl::StatusOr<std::optional<Message>>> ReadNextRequest(Call& call,
                                                              int64_t limit) {
  call.SetBetweenRequests(true);
  auto message = co_await ReadMessage(call, limit);
  call.SetBetweenRequests(false);
  co_return message;
}

Async<absl::Status> ReadRequest(Call& call, google::protobuf::Message& request,
                                MessageCheck check) {
  auto message = co_await ReadMessage(call);
  if (!message.ok()) co_return message.status();
  if (!message->has_value()) {
    co_return absl::InvalidArgumentError("the request message is missing");
  }
  if (check != nullptr) CO_RETURN_IF_ERROR(check((*message)->pieces()));
  co_return Parse(Join((*message)->pieces()), "the request", request);
}

Async<absl::Status> RespondWithin(Call& call, grpc::ByteBuffer message) {
  absl::Status room = co_await call.TakeResponse(
      HeldBytes(static_cast<int64_t>(message.Length())));
  if (!room.ok()) co_return room;
  call.Respond(std::move(message));
  co_return absl::OkStatus();
}

}  // namespace gemmd::rpc
