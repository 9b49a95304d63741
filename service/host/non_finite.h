// The infinities and NaNs that the dense operand of a sparse product has. What
// a sparse operand does not store is not multiplied, but the sums of this
// folder take it for zero, and zero times NaN is NaN. So they are exchanged for
// ones, and their products with what is stored are added to the sums
// afterwards: that order cannot be told, since those products are not finite.
// Thread-compatible.
#ifndef GEMMD_SERVICE_HOST_NON_FINITE_H_
#define GEMMD_SERVICE_HOST_NON_FINITE_H_

#include <cstdint>
#include <vector>

#include "jit/problem/problem.h"
#include "service/host/block.h"
#include "service/host/gemm.h"

namespace gemmd::host {

class NonFinite {
 public:
  // There are none in other products than sparse ones. Both outlive it.
  NonFinite(const jit::Problem& problem, const GemmOperands& operands);

  // What is to be multiplied: `operands`, or a finite copy of the dense one.
  const GemmOperands& operands() const { return operands_; }
  bool empty() const { return elements_.empty(); }
  // Adds what is missing of the sums of `block`, row-major and tight.
  void AddTo(int64_t batch, const Block& block, double* sums) const;

 private:
  struct Element {
    int64_t matrix;
    int64_t line;  // Row of A or column of B.
    int64_t k;
    double value;
  };

  // Those of lines of the dense operand, and the copy without them.
  void Take(const char* from);
  // What the sparse operand stores in one of its lines at k; 0 and false where
  // it stores nothing.
  bool Stored(const char* line, int64_t k, double& value) const;

  const jit::Problem& problem_;
  GemmOperands operands_;
  std::vector<Element> elements_;
  std::vector<char> finite_;
};

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_NON_FINITE_H_
