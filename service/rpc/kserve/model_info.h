// How a model is described to who manages it.
#ifndef GEMMD_SERVICE_RPC_KSERVE_MODEL_INFO_H_
#define GEMMD_SERVICE_RPC_KSERVE_MODEL_INFO_H_

#include "gemmd/v1/models.pb.h"
#include "service/engine/engine.h"
#include "service/models/model.h"

namespace gemmd::rpc::kserve {

// `model` has weights.
v1::Model ToWire(const models::Model& model, const engine::Engine& engine);

}  // namespace gemmd::rpc::kserve

#endif  // GEMMD_SERVICE_RPC_KSERVE_MODEL_INFO_H_
