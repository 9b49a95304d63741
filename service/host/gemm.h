// Matrix products on the CPU under the numerics contract of matmul.proto: the
// oracle that GPU kernels are compared with. Thread-safe.
#ifndef GEMMD_SERVICE_HOST_GEMM_H_
#define GEMMD_SERVICE_HOST_GEMM_H_

#include "jit/plan/plan.h"
#include "jit/problem/problem.h"

namespace gemmd::host {

// First bytes of the matrices in the padded layout of jit/problem/layout.h;
// null where the problem does not read or write them. `d` may be `c`.
struct GemmOperands {
  const char* a = nullptr;
  const char* b = nullptr;
  const char* c = nullptr;
  char* d = nullptr;
  const char* bias = nullptr;
  const char* a_scale = nullptr;
  const char* b_scale = nullptr;
  const char* d_scale = nullptr;
  char* auxiliary = nullptr;
  float* amax = nullptr;
};

// Products are summed in f64 and rounded to the type of the sum: at the end,
// or where it shows on the way (sums in f16, clamping integers, block scales)
// after as many products as the tensor core adds at once. The epilogue runs in
// f32. The greatest magnitude is 0 where nothing is written.
void Gemm(const jit::Problem& problem, const GemmOperands& operands);

// The same with the sums of a Hopper GPU that runs `plan`, one of the
// problem's, bit for bit; HopperSums::Knows it.
void Gemm(const jit::Problem& problem, const jit::Plan& plan,
          const GemmOperands& operands);

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_GEMM_H_
