// How tensors are described to clients.
#ifndef GEMMD_SERVICE_RPC_TENSOR_INFO_H_
#define GEMMD_SERVICE_RPC_TENSOR_INFO_H_

#include <string>

#include "gemmd/v1/tensors.pb.h"
#include "service/engine/engine.h"

namespace gemmd::rpc {

v1::TensorInfo ToWire(const engine::Tensor& tensor,
                      const engine::Engine& engine);

// "bf16 3 x 5 row_major", "sparse bf16 3 x 8 row_major", for error texts.
std::string LayoutText(const jit::MatrixLayout& layout);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_TENSOR_INFO_H_
