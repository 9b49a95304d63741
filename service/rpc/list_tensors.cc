#include <optional>
#include <string>
#include <utility>

#include "service/rpc/background.h"
#include "service/rpc/methods.h"
#include "service/rpc/page.h"
#include "service/rpc/tensor_info.h"
#include "service/rpc/wire_writer.h"

namespace gemmd::rpc {
namespace {

// Of all tensors, or of those of one owner.
grpc::ByteBuffer Page(engine::Engine& engine, size_t size,
                      const std::string& after,
                      const std::optional<std::string>& owner) {
  using Response = v1::ListTensorsResponse;
  const engine::TensorStore& tensors = engine.tensors();
  engine::TensorStore::Tensors list =
      owner ? tensors.ListOf(*owner, after, size + 1)
            : tensors.List(after, size + 1);
  Response rest;
  if (HasNextPage(list, size)) {
    rest.set_next_page_token(list.back()->identity().handle);
  }
  WireWriter writer;
  for (const auto& tensor : list) {
    writer.AddMessage(Response::kTensorsFieldNumber, ToWire(*tensor, engine));
  }
  writer.AddFields(rest);
  return std::move(writer).Finish();
}

}  // namespace

Async<absl::StatusOr<grpc::ByteBuffer>> ListTensors(
    Runtime& runtime, Call& call, const v1::ListTensorsRequest& request) {
  CO_ASSIGN_OR_RETURN(const size_t size, PageSize(request.page_size()));
  // A handle is all that it takes to use a tensor.
  std::optional<std::string> owner;
  if (!call.may_administer()) owner = call.request_context().identity;
  auto page = InBackground<grpc::ByteBuffer>(runtime, call, [&] {
    return Page(runtime.engine, size, request.page_token(), owner);
  });
  co_return co_await page;
}

}  // namespace gemmd::rpc
