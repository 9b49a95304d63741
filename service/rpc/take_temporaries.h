// Room on a device for the matrices of one call.
#ifndef GEMMD_SERVICE_RPC_TAKE_TEMPORARIES_H_
#define GEMMD_SERVICE_RPC_TAKE_TEMPORARIES_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "service/rpc/async.h"
#include "service/rpc/call.h"
#include "service/rpc/runtime.h"

namespace gemmd::rpc {

using Temporaries = std::vector<std::shared_ptr<engine::Tensor>>;

// Tensors of `layouts`, without elements, that live as long as the call keeps
// them. Waits for its turn until there is room for all of them, at most for the
// call's deadline and Limits::max_wait; then RESOURCE_EXHAUSTED, as at once
// when they can never fit. Holds up no other call unless it gets its room when
// others end.
Async<absl::StatusOr<Temporaries>> TakeTemporaries(
    Runtime& runtime, Call& call, std::vector<jit::MatrixLayout> layouts,
    int device);

// `layout` as a tensor: RESOURCE_EXHAUSTED when it has more bytes than all
// tensors may have, which may be more than can be counted.
absl::Status CheckTensorBytes(Runtime& runtime, const jit::MatrixLayout& layout,
                              absl::string_view what);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_TAKE_TEMPORARIES_H_
