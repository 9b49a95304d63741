// Runs many products and answers once for all of them: together where the
// engine can, else a few at a time. Thread-safe.
#ifndef GEMMD_SERVICE_RPC_GATHER_H_
#define GEMMD_SERVICE_RPC_GATHER_H_

#include <vector>

#include "service/engine/engine.h"
#include "service/rpc/matmul_request.h"

namespace gemmd::rpc {

using ProductResults = std::vector<engine::ProductResult>;

// Products of one call that are with the engine at a time: enough to keep a
// device busy, few enough for the others in its queue. Of a repeatable call the
// first one runs alone.
inline constexpr int kGroupsAtOnce = 8;

// Results in the order of `requests`, or the first error, prefixed with
// "groups[i]: ", once no product runs any more; what has not begun then is
// left out. `done` may be called at once and on any thread. The engine and the
// bytes of the requests outlive it.
void MultiplyAll(engine::Engine& engine, std::vector<MatmulRequest> requests,
                 engine::RequestContext context,
                 engine::Done<ProductResults> done);

// The same, a few at a time in any case.
void MultiplyOneByOne(engine::Engine& engine,
                      std::vector<MatmulRequest> requests,
                      engine::RequestContext context,
                      engine::Done<ProductResults> done);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_GATHER_H_
