#include "service/rpc/kserve/model_view.h"

#include "service/rpc/kserve/inference.h"

namespace gemmd::rpc::kserve {
namespace {

constexpr int64_t kAny = -1;
constexpr jit::DataType kF32 = jit::DataType::kF32;

ModelView ViewOfMatmul() {
  return {.inputs = {{kA, kF32, {kAny, kAny}},
                     {kB, kF32, {kAny, kAny}},
                     {kC, kF32, {kAny, kAny}, /*optional=*/true},
                     {kBias, kF32, {kAny}, /*optional=*/true},
                     {kAScale, kF32, {kAny}, /*optional=*/true},
                     {kBScale, kF32, {kAny}, /*optional=*/true}},
          .output = {kD, kF32, {kAny, kAny}}};
}

}  // namespace

bool TakesBias(const models::Model& model) {
  return model.weights().bias == nullptr &&
         model.spec().problem.d_type != jit::DataType::kS32;
}

ModelView ViewOf(const models::Model& model) {
  if (model.weights().b == nullptr) return ViewOfMatmul();
  const jit::Problem& problem = model.spec().problem;
  const auto matrices = [&](int64_t columns) {
    if (problem.batch == 1) return Dimensions{kAny, columns};
    return Dimensions{problem.batch, kAny, columns};
  };
  ModelView view = {.inputs = {{kA, problem.a_type, matrices(problem.k)}},
                    .output = {kD, problem.d_type, matrices(problem.n)}};
  if (TakesBias(model)) {
    view.inputs.push_back({kBias, kF32, {problem.n}, /*optional=*/true});
  }
  return view;
}

}  // namespace gemmd::rpc::kserve
