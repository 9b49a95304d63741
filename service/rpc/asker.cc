#include "service/rpc/asker.h"

#include "absl/strings/str_cat.h"
#include "service/rpc/tensor_info.h"

namespace gemmd::rpc {

absl::StatusOr<std::shared_ptr<engine::Tensor>> FindTensor(
    const Asker& asker, const std::string& handle) {
  if (asker.bound != nullptr) {
    const auto found = asker.bound->find(handle);
    if (found != asker.bound->end()) return found->second;
  }
  if (asker.found != nullptr) {
    const auto before = asker.found->find(handle);
    if (before != asker.found->end()) return before->second;
  }
  auto tensor = asker.runtime.engine.tensors().Find(handle, asker.identity);
  if (tensor.ok() && asker.found != nullptr) {
    asker.found->emplace((*tensor)->identity().handle, *tensor);
  }
  return tensor;
}

absl::StatusOr<std::shared_ptr<engine::Tensor>> FindTensor(
    const Asker& asker, const std::string& handle,
    const jit::MatrixLayout& wanted, absl::string_view field) {
  auto tensor = FindTensor(asker, handle);
  if (!tensor.ok()) {
    return absl::Status(
        tensor.status().code(),
        absl::StrCat(field, ".tensor: ", tensor.status().message()));
  }
  if ((*tensor)->layout() != wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".tensor is ", LayoutText((*tensor)->layout()),
                     "; allowed for this problem: ", LayoutText(wanted)));
  }
  return tensor;
}

}  // namespace gemmd::rpc
