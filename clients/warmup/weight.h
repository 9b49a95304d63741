// A weight of a model, and the product that a projection through it is. Pure
// function.
#ifndef GEMMD_CLIENTS_WARMUP_WEIGHT_H_
#define GEMMD_CLIENTS_WARMUP_WEIGHT_H_

#include <cstdint>

#include "jit/problem/problem.h"

namespace gemmd::warmup {

struct Weight {
  int64_t outputs;
  int64_t inputs;
};

// The projection of `tokens` through `weight` in bf16: D = X W^T with row-major
// activations X; W row-major (outputs x inputs), which is B column-major, or
// W^T row-major.
inline jit::Problem Projection(const Weight& weight, int64_t tokens,
                               jit::Order b) {
  return {.m = tokens, .n = weight.outputs, .k = weight.inputs, .b_order = b};
}

}  // namespace gemmd::warmup

#endif  // GEMMD_CLIENTS_WARMUP_WEIGHT_H_
