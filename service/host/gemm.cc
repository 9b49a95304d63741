#include "service/host/gemm.h"

#include <algorithm>

#include "service/host/block.h"
#include "service/host/epilogue.h"
#include "service/host/hopper/hopper_sums.h"
#include "service/host/non_finite.h"
#include "service/host/sums.h"

namespace gemmd::host {
namespace {

// Blocks bound the f64 copies of the operands: with the depth at which they
// are packed (sums.cc) 10 MiB in all.
constexpr int64_t kBlock = 512;

template <typename Sums>
void Multiply(const jit::Problem& problem, const GemmOperands& operands,
              Sums sums) {
  Epilogue epilogue(problem, operands);
  NonFinite non_finite(problem, operands);
  for (int64_t batch = 0; batch < problem.batch; ++batch) {
    for (int64_t m = 0; m < problem.m; m += kBlock) {
      for (int64_t n = 0; n < problem.n; n += kBlock) {
        const Block block = {{m, std::min(kBlock, problem.m - m)},
                             {n, std::min(kBlock, problem.n - n)}};
        if (!problem.reads_ab()) {
          epilogue.Write(batch, block, nullptr);
        } else {
          double* const of_block = sums.Of(batch, block).data();
          non_finite.AddTo(batch, block, of_block);
          epilogue.Write(batch, block, of_block);
        }
      }
    }
  }
}

}  // namespace

void Gemm(const jit::Problem& problem, const GemmOperands& operands) {
  Multiply(problem, operands, Sums(problem, operands));
}

void Gemm(const jit::Problem& problem, const jit::Plan& plan,
          const GemmOperands& operands) {
  Multiply(problem, operands, HopperSums(problem, plan, operands));
}

}  // namespace gemmd::host
