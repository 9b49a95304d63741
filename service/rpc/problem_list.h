// What requests about several problems and devices ask for.
#ifndef GEMMD_SERVICE_RPC_PROBLEM_LIST_H_
#define GEMMD_SERVICE_RPC_PROBLEM_LIST_H_

#include <google/protobuf/repeated_ptr_field.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gemmd/v1/kernels.pb.h"
#include "jit/problem/group_line.h"
#include "jit/problem/problem.h"
#include "service/rpc/message.h"
#include "service/rpc/runtime.h"

namespace gemmd::rpc {

using ProblemField = google::protobuf::RepeatedPtrField<v1::Problem>;

// Before a PrepareKernelsRequest or TuneKernelsRequest is parsed: it may hold
// 32,000 problems or groups of two bytes. INVALID_ARGUMENT for far more than
// there may be.
absl::Status CheckProblemCount(absl::Span<const Piece> message);

// At most 1024. Errors name the index.
absl::StatusOr<std::vector<jit::Problem>> ToProblems(const ProblemField& wire);

// Problems and groups, at most 1024 problems in all, 256 in a group, and 1024
// groups.
absl::StatusOr<jit::ProblemList> ToProblemList(
    const v1::PrepareKernelsRequest& request);

// The device called `name`; "" is all of them.
absl::StatusOr<std::vector<int>> ToDevices(Runtime& runtime,
                                           const std::string& name);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_PROBLEM_LIST_H_
