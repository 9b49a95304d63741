// Where the results of a MatmulRequest go. Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_MATMUL_RESULTS_H_
#define GEMMD_SERVICE_RPC_MATMUL_RESULTS_H_

#include "absl/status/status.h"
#include "gemmd/v1/matmul.pb.h"
#include "service/rpc/asker.h"
#include "service/rpc/matmul_request.h"

namespace gemmd::rpc {

// Of each result that the problem of `product` has, whose inputs are set.
absl::Status SetResults(const Asker& asker, const v1::MatmulHeader& header,
                        Transport transport, SequenceNames* names,
                        engine::Product& product, MatmulBytes& bytes);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_MATMUL_RESULTS_H_
