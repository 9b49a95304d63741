// Element types as the inference protocol calls them: "FP32" is f32. Of ours,
// fp8 and single bits have no name there. Pure functions.
#ifndef GEMMD_SERVICE_RPC_KSERVE_DATATYPE_H_
#define GEMMD_SERVICE_RPC_KSERVE_DATATYPE_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "inference/model_config.pb.h"
#include "jit/problem/data_type.h"

namespace gemmd::rpc::kserve {

// Of an input that is multiplied, of sums, or of C and D: integers add up to
// INT32, which nothing multiplies.
enum class Use { kMultiplied, kSummed, kAny };

// INVALID_ARGUMENT: `what` is that, and which there are for this use.
absl::StatusOr<jit::DataType> ToDataType(absl::string_view name,
                                         absl::string_view what, Use use);

// Empty: it has none.
absl::string_view NameOf(jit::DataType type);
inference::DataType ConfigOf(jit::DataType type);

}  // namespace gemmd::rpc::kserve

#endif  // GEMMD_SERVICE_RPC_KSERVE_DATATYPE_H_
