// Who asks, and the tensors that are his to name. Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_ASKER_H_
#define GEMMD_SERVICE_RPC_ASKER_H_

#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "jit/problem/layout.h"
#include "service/engine/tensor.h"
#include "service/rpc/runtime.h"

namespace gemmd::rpc {

// Tensors that no store has, by what a header of the daemon's own making calls
// them.
using BoundTensors =
    absl::flat_hash_map<std::string, std::shared_ptr<engine::Tensor>>;
// Those of the store, by their own handles.
using FoundTensors =
    absl::flat_hash_map<absl::string_view, std::shared_ptr<engine::Tensor>>;

// Whose request it is: he uses what is his.
struct Asker {
  Runtime& runtime;
  std::string identity;
  const BoundTensors* bound = nullptr;  // Null: there are none.
  // Of a request that names them again and again: those that were found for it,
  // which are not looked up anew. Null: all are.
  FoundTensors* found = nullptr;
};

absl::StatusOr<std::shared_ptr<engine::Tensor>> FindTensor(
    const Asker& asker, const std::string& handle);

// The same, as `field` of a request names it: INVALID_ARGUMENT unless it is
// `wanted`.
absl::StatusOr<std::shared_ptr<engine::Tensor>> FindTensor(
    const Asker& asker, const std::string& handle,
    const jit::MatrixLayout& wanted, absl::string_view field);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_ASKER_H_
