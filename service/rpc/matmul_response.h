// MatmulResponse, written with the results' bytes left where they are.
// Pure functions.
#ifndef GEMMD_SERVICE_RPC_MATMUL_RESPONSE_H_
#define GEMMD_SERVICE_RPC_MATMUL_RESPONSE_H_

#include "service/engine/engine.h"
#include "service/rpc/runtime.h"
#include "service/rpc/wire_writer.h"

namespace gemmd::rpc {

// The fields of a MatmulResponse, without `execution` where that is null.
// Counts the bytes of matrices as sent.
WireWriter ToMatmulResponse(const engine::Execution* execution,
                            engine::Results results, Counters& counters);
WireWriter ToMatmulResponse(engine::ProductResult result, Counters& counters);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_MATMUL_RESPONSE_H_
