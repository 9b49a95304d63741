// InferTensorContents: elements as protobuf has numbers. Pure functions.
#ifndef GEMMD_SERVICE_RPC_KSERVE_CONTENTS_H_
#define GEMMD_SERVICE_RPC_KSERVE_CONTENTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "service/rpc/kserve/infer_request.h"

namespace gemmd::rpc::kserve {

// Finds the elements of `input` in `contents`, a serialised message: `data` of
// FP32, which lie there as they are needed, else `numbers`. INVALID_ARGUMENT
// when they are of another type.
absl::Status ReadContents(const Pieces& contents, Input& input);

// The elements that `input.numbers` are. INVALID_ARGUMENT as Decode.
absl::StatusOr<std::string> DecodeNumbers(const Input& input);

}  // namespace gemmd::rpc::kserve

#endif  // GEMMD_SERVICE_RPC_KSERVE_CONTENTS_H_
