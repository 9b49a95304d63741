// Matrix products on the CPU under the numerics contract of matmul.proto: the
// oracle that GPU kernels are compared with. Thread-safe.
#ifndef GEMMD_SERVICE_HOST_GEMM_H_
#define GEMMD_SERVICE_HOST_GEMM_H_

#include "jit/problem/problem.h"

namespace gemmd::host {

// First bytes of the matrices in the padded layout of jit/problem/layout.h;
// null where the problem does not read them. `d` may be `c`.
struct GemmOperands {
  const char* a = nullptr;
  const char* b = nullptr;
  const char* c = nullptr;
  char* d = nullptr;
};

// Products are summed in f64, the sum is rounded to f32, alpha and beta * C
// are applied in f32, and the result is rounded once to D's type.
void Gemm(const jit::Problem& problem, const GemmOperands& operands);

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_GEMM_H_
