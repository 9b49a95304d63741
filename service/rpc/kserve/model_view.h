// What a model takes and gives, as clients are told. Pure functions.
#ifndef GEMMD_SERVICE_RPC_KSERVE_MODEL_VIEW_H_
#define GEMMD_SERVICE_RPC_KSERVE_MODEL_VIEW_H_

#include <string>
#include <vector>

#include "jit/problem/data_type.h"
#include "service/models/model.h"
#include "service/rpc/kserve/shapes.h"

namespace gemmd::rpc::kserve {

struct TensorView {
  std::string name;
  jit::DataType type;
  Dimensions shape;  // -1: any.
  bool optional = false;
};

struct ModelView {
  std::vector<TensorView> inputs;
  TensorView output;
};

// Whether requests for a model with weights may bring a bias: it has none, and
// D is of a type that one is added to.
bool TakesBias(const models::Model& model);

// Of "matmul" the types and shapes are those of one product of many.
ModelView ViewOf(const models::Model& model);

}  // namespace gemmd::rpc::kserve

#endif  // GEMMD_SERVICE_RPC_KSERVE_MODEL_VIEW_H_
