#include <string>
#include <utility>
#include <vector>

#include "service/rpc/background.h"
#include "service/rpc/kernel_summary.h"
#include "service/rpc/methods.h"
#include "service/rpc/page.h"
#include "service/rpc/wire_writer.h"

namespace gemmd::rpc {
namespace {

grpc::ByteBuffer Page(const engine::Engine& engine, size_t size,
                      const std::string& after) {
  using Response = v1::ListKernelsResponse;
  std::vector<jit::EntrySummary> list = engine.cache().List(after, size + 1);
  Response rest;
  if (HasNextPage(list, size)) rest.set_next_page_token(list.back().key);
  const LoadedKernels loaded(engine);
  WireWriter writer;
  for (const jit::EntrySummary& kernel : list) {
    writer.AddMessage(Response::kKernelsFieldNumber, ToWire(kernel, loaded));
  }
  writer.AddFields(rest);
  return std::move(writer).Finish();
}

}  // namespace

Async<absl::StatusOr<grpc::ByteBuffer>> ListKernels(
    Runtime& runtime, Call& call, const v1::ListKernelsRequest& request) {
  CO_ASSIGN_OR_RETURN(const size_t size, PageSize(request.page_size()));
  if (!request.page_token().empty() && !CheckKey(request.page_token()).ok()) {
    co_return absl::InvalidArgumentError(
        "page_token is malformed; allowed: next_page_token of a response");
  }
  auto page = InBackground<grpc::ByteBuffer>(runtime, call, [&] {
    return Page(runtime.engine, size, request.page_token());
  });
  co_return co_await page;
}

}  // namespace gemmd::rpc
