// Problems as the API of the daemon spells them.
#ifndef GEMMD_CLIENTS_WARMUP_WIRE_H_
#define GEMMD_CLIENTS_WARMUP_WIRE_H_

#include "absl/status/statusor.h"
#include "gemmd/v1/types.pb.h"
#include "jit/problem/problem.h"

namespace gemmd::warmup {

// UNIMPLEMENTED for a problem of which FromWire would lose something.
absl::StatusOr<v1::Problem> ToWire(const jit::Problem& problem);

// A valid problem; INVALID_ARGUMENT or UNIMPLEMENTED naming the field, also
// when one is set that nothing here stands for.
absl::StatusOr<jit::Problem> FromWire(const v1::Problem& wire);

}  // namespace gemmd::warmup

#endif  // GEMMD_CLIENTS_WARMUP_WIRE_H_
