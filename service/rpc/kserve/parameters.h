// The parameters of a request, which are those of our own clients' products.
// Pure functions.
#ifndef GEMMD_SERVICE_RPC_KSERVE_PARAMETERS_H_
#define GEMMD_SERVICE_RPC_KSERVE_PARAMETERS_H_

#include "absl/status/status.h"
#include "inference/service.pb.h"
#include "jit/problem/problem.h"

namespace gemmd::rpc::kserve {

using Parameters =
    google::protobuf::Map<std::string, inference::InferParameter>;

// Sets what they say of a product whose input types are set. INVALID_ARGUMENT
// when one is unknown or has a wrong value; says what is allowed.
absl::Status Apply(const Parameters& parameters, jit::Problem& problem);

// INVALID_ARGUMENT unless all are such as say nothing of a product: those with
// which clients order their requests, and which nothing here depends on.
absl::Status CheckNone(const Parameters& parameters, absl::string_view of);

}  // namespace gemmd::rpc::kserve

#endif  // GEMMD_SERVICE_RPC_KSERVE_PARAMETERS_H_
