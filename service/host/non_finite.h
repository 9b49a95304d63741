// The infinities and NaNs that the dense operand of a sparse product has. What
// a sparse operand does not store is not multiplied, but the sums of this
// folder take it for zero, and zero times NaN is NaN. So they take ones in
// their place, and their products with what is stored are added to the sums
// afterwards: that order cannot be told, since those products are not finite.
// They are looked for in one block after the other, since all elements may be
// such: a list of them would be many times as large as the operand.
//
// Thread-compatible; its buffers are used again for the next block.
#ifndef GEMMD_SERVICE_HOST_NON_FINITE_H_
#define GEMMD_SERVICE_HOST_NON_FINITE_H_

#include <cstdint>
#include <vector>

#include "jit/problem/problem.h"
#include "service/host/block.h"
#include "service/host/gemm.h"

namespace gemmd::host {

// Whether sums take ones for those of `operand`, the problem's A or B.
bool TakesOnes(const jit::Problem& problem, const jit::MatrixLayout& operand);
// Exchanges those among `elements` for ones of their signs.
void PutOnes(int64_t count, double* elements);

class NonFinite {
 public:
  // Both outlive it.
  NonFinite(const jit::Problem& problem, const GemmOperands& operands)
      : problem_(problem), operands_(operands) {}

  // Adds what is missing of the sums of `block`, row-major and tight.
  void AddTo(int64_t batch, const Block& block, double* sums);

 private:
  // 64 steps of k of one line, a bit for each: whether an infinity times its
  // element has the infinity's sign, and whether it has the other. Zeros and
  // NaNs have both bits, as the sum of both infinities is NaN as well.
  struct Signs {
    void Set(int64_t step, double element) {
      plus |= uint64_t{!(element < 0)} << step;
      minus |= uint64_t{!(element > 0)} << step;
    }

    uint64_t plus = 0;
    uint64_t minus = 0;
  };

  // Those of lines of the dense operand over `depth`, and whether there are
  // any. `lines` are rows of A or columns of B, as below.
  bool Find(int64_t batch, Range lines, Range depth);
  // Those of all that the sparse operand stores.
  void FindStored(int64_t batch, Range lines, Range depth);
  void AddProducts(const Block& block, double* sums) const;

  const jit::Problem& problem_;
  const GemmOperands& operands_;
  int64_t words_ = 0;  // Of one line.
  std::vector<Signs> dense_;
  std::vector<Signs> stored_;
};

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_NON_FINITE_H_
