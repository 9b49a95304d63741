#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/rpc/engine_call.h"
#include "service/rpc/kernel_summary.h"
#include "service/rpc/methods.h"

namespace gemmd::rpc {
namespace {

constexpr int32_t kMaxPage = 1000;

v1::ListKernelsResponse Page(const engine::Engine& engine, size_t size,
                             const std::string& after) {
  v1::ListKernelsResponse response;
  // One more than asked for tells whether there is another page.
  std::vector<jit::EntrySummary> list = engine.cache().List(after, size + 1);
  if (list.size() > size) {
    list.pop_back();
    response.set_next_page_token(list.back().key);
  }
  const LoadedKernels loaded(engine);
  for (const jit::EntrySummary& kernel : list) {
    *response.add_kernels() = ToWire(kernel, loaded);
  }
  return response;
}

}  // namespace

Async<absl::StatusOr<v1::ListKernelsResponse>> ListKernels(
    Runtime& runtime, Call& call, const v1::ListKernelsRequest& request) {
  using Response = v1::ListKernelsResponse;
  if (request.page_size() < 0 || request.page_size() > kMaxPage) {
    co_return absl::InvalidArgumentError(absl::StrCat(
        "page_size is ", request.page_size(), "; allowed: 0 to ", kMaxPage));
  }
  if (!request.page_token().empty() && !CheckKey(request.page_token()).ok()) {
    co_return absl::InvalidArgumentError(
        "page_token is malformed; allowed: next_page_token of a response");
  }
  const size_t size = request.page_size() == 0 ? kMaxPage : request.page_size();
  auto list =
      CallEngine<Response>(call.loop(), [&](engine::Done<Response> done) {
        runtime.engine.InBackground<Response>(
            call.request_context().identity,
            [&runtime, &request, size]() -> absl::StatusOr<Response> {
              return Page(runtime.engine, size, request.page_token());
            },
            std::move(done));
      });
  absl::StatusOr<Response> response = co_await list;
  co_return response;
}

}  // namespace gemmd::rpc
