#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/rpc/methods.h"
#include "service/rpc/tensor_info.h"

namespace gemmd::rpc {
namespace {

constexpr int32_t kMaxPage = 1000;

}  // namespace

Async<absl::StatusOr<v1::ListTensorsResponse>> ListTensors(
    Runtime& runtime, Call& call, const v1::ListTensorsRequest& request) {
  if (request.page_size() < 0 || request.page_size() > kMaxPage) {
    co_return absl::InvalidArgumentError(absl::StrCat(
        "page_size is ", request.page_size(), "; allowed: 0 to ", kMaxPage));
  }
  const size_t size = request.page_size() == 0 ? kMaxPage : request.page_size();
  const std::string& after = request.page_token();
  const engine::TensorStore& tensors = runtime.engine.tensors();
  // A handle is all that it takes to use a tensor. One more than asked for
  // tells whether there is another page.
  engine::TensorStore::Tensors page =
      call.may_administer()
          ? tensors.List(after, size + 1)
          : tensors.ListOf(call.request_context().identity, after, size + 1);
  v1::ListTensorsResponse response;
  if (page.size() > size) {
    page.pop_back();
    response.set_next_page_token(page.back()->identity().handle);
  }
  for (const auto& tensor : page) {
    *response.add_tensors() = ToWire(*tensor, runtime.engine);
  }
  co_return response;
}

}  // namespace gemmd::rpc
