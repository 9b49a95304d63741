#include "service/rpc/kserve/model_info.h"

#include "proto/convert/problem.h"

namespace gemmd::rpc::kserve {

v1::Model ToWire(const models::Model& model, const engine::Engine& engine) {
  const engine::Tensor& b = *model.weights().b;
  v1::Model wire;
  wire.set_name(model.spec().name);
  wire.set_shared(model.spec().shared);
  *wire.mutable_problem() = convert::ToWire(model.spec().problem);
  int64_t bytes = b.layout().device_bytes();
  if (model.weights().bias != nullptr) {
    bytes += model.weights().bias->layout().device_bytes();
  }
  wire.set_device_bytes(bytes);
  wire.set_device(engine.device(b.identity().device).description().name);
  wire.set_persistent(model.persistent());
  return wire;
}

}  // namespace gemmd::rpc::kserve
