// Wire vocabulary <-> internal vocabulary, strictly: what is unknown or not
// served is an error that names the field. Pure functions.
#ifndef GEMMD_SERVICE_RPC_CONVERT_H_
#define GEMMD_SERVICE_RPC_CONVERT_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gemmd/v1/tensors.pb.h"
#include "gemmd/v1/types.pb.h"
#include "jit/problem/data_type.h"
#include "jit/problem/problem.h"
#include "service/engine/engine.h"

namespace gemmd::rpc {

// `field` is how the client calls it: "problem.a_type".
absl::StatusOr<jit::DataType> ToDataType(int wire, absl::string_view field);
// UNSPECIFIED is row-major.
absl::StatusOr<jit::Order> ToOrder(int wire, absl::string_view field);

// Valid: jit::Validate has been called.
absl::StatusOr<jit::Problem> ToProblem(const v1::Problem& wire);

v1::DataType ToWire(jit::DataType type);
v1::Order ToWire(jit::Order order);
v1::Execution ToWire(const engine::Execution& execution);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_CONVERT_H_
