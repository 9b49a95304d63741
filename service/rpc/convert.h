// Wire vocabulary <-> internal vocabulary, strictly. Pure functions.
#ifndef GEMMD_SERVICE_RPC_CONVERT_H_
#define GEMMD_SERVICE_RPC_CONVERT_H_

#include "gemmd/v1/types.pb.h"
#include "proto/convert/problem.h"
#include "service/engine/engine.h"

namespace gemmd::rpc {

using convert::SparsityOf;
using convert::ToDataType;
using convert::ToOrder;
using convert::ToProblem;
using convert::ToSparsity;
using convert::ToWire;

v1::Phases ToWire(const engine::Phases& phases);
v1::Paths ToWire(const engine::Paths& paths);
v1::Execution ToWire(const engine::Execution& execution);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_CONVERT_H_
