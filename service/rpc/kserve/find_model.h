// The models that a call may use. Pure functions of the store.
#ifndef GEMMD_SERVICE_RPC_KSERVE_FIND_MODEL_H_
#define GEMMD_SERVICE_RPC_KSERVE_FIND_MODEL_H_

#include <string>

#include "absl/status/statusor.h"
#include "service/models/model.h"
#include "service/rpc/call.h"
#include "service/rpc/runtime.h"

namespace gemmd::rpc::kserve {

// Of every model the only one.
std::string Version();
// What models are made for.
inline constexpr char kPlatform[] = "gemmd";

// Whose models a call sees, and for whom its inferences count: the principal;
// "" where nobody says who he is.
std::string WhoCounts(const Call& call);

// NOT_FOUND, in the same words whether it is another's or nobody's.
absl::StatusOr<models::ModelPointer> FindModel(Runtime& runtime,
                                               const Call& call,
                                               const std::string& name,
                                               const std::string& version);

}  // namespace gemmd::rpc::kserve

#endif  // GEMMD_SERVICE_RPC_KSERVE_FIND_MODEL_H_
