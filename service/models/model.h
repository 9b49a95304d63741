// A product with weights under a name: what clients of the inference protocol
// call a model. Immutable, but for what it counts; shared by the store and by
// every inference that uses it. Thread-safe.
#ifndef GEMMD_SERVICE_MODELS_MODEL_H_
#define GEMMD_SERVICE_MODELS_MODEL_H_

#include <memory>
#include <string>
#include <utility>

#include "jit/problem/problem.h"
#include "service/engine/tensor.h"
#include "service/models/usage.h"

namespace gemmd::models {

// What a model is, without its weights.
struct Spec {
  std::string name;
  // The principal who made it; "": all clients, where nobody says who he is.
  std::string owner;
  bool shared = false;  // Others may infer with it too.
  // Valid; m is 1. n, k and the batch are those of B.
  jit::Problem problem;
};

struct Weights {
  std::shared_ptr<engine::Tensor> b;     // In the layout problem.b().
  std::shared_ptr<engine::Tensor> bias;  // Null: requests may bring one.
};

class Model {
 public:
  Model(Spec spec, Weights weights, bool persistent)
      : spec_(std::move(spec)),
        weights_(std::move(weights)),
        persistent_(persistent) {}

  const Spec& spec() const { return spec_; }
  // Without any, every operand comes with the request: "matmul".
  const Weights& weights() const { return weights_; }
  bool persistent() const { return persistent_; }
  Usage& usage() { return usage_; }
  const Usage& usage() const { return usage_; }

 private:
  const Spec spec_;
  const Weights weights_;
  const bool persistent_;
  Usage usage_;
};

using ModelPointer = std::shared_ptr<Model>;

// The model that is always there, of everybody.
inline constexpr char kMatmul[] = "matmul";

}  // namespace gemmd::models

#endif  // GEMMD_SERVICE_MODELS_MODEL_H_
