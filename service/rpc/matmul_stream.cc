#include "service/rpc/methods.h"

namespace gemmd::rpc {

Async<absl::Status> MatmulStream(Runtime&, Call&) {
  co_return absl::UnimplementedError(
      "MatmulStream is not served by this version. Use Matmul; for operands "
      "beyond its message limit, upload tensors and multiply those.");
}

}  // namespace gemmd::rpc
