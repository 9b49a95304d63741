// One inference, from its message to that of its answer.
#ifndef GEMMD_SERVICE_RPC_KSERVE_INFER_H_
#define GEMMD_SERVICE_RPC_KSERVE_INFER_H_

#include <string>

#include "absl/status/statusor.h"
#include "service/rpc/async.h"
#include "service/rpc/call.h"
#include "service/rpc/runtime.h"
#include "service/rpc/wire_writer.h"

namespace gemmd::rpc::kserve {

// The fields of a ModelInferResponse. `id`, which may be null, becomes that of
// the request, as far as one was read. Counts for the model that was asked, and
// holds room for the answer.
Async<absl::StatusOr<WireWriter>> Infer(Runtime& runtime, Call& call,
                                        const Message& message,
                                        std::string* id = nullptr);

}  // namespace gemmd::rpc::kserve

#endif  // GEMMD_SERVICE_RPC_KSERVE_INFER_H_
