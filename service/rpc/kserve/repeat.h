// Matrices of a batch that serve several products each, without a copy of them.
// Pure functions.
#ifndef GEMMD_SERVICE_RPC_KSERVE_REPEAT_H_
#define GEMMD_SERVICE_RPC_KSERVE_REPEAT_H_

#include "absl/status/statusor.h"
#include "service/rpc/kserve/infer_request.h"

namespace gemmd::rpc::kserve {

// The matrices of `input`, which are those of `operand`, as often as `product`
// needs each and in its order. INVALID_ARGUMENT when that is more than 65536 of
// them, RESOURCE_EXHAUSTED when it is more than `max_bytes`: a device holds
// them all.
absl::StatusOr<Pieces> Repeat(const Input& input, const Matrices& operand,
                              const Matrices& product, int64_t max_bytes);

}  // namespace gemmd::rpc::kserve

#endif  // GEMMD_SERVICE_RPC_KSERVE_REPEAT_H_
