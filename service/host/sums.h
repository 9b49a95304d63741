// The sums of products of one block of A B. Thread-compatible; its buffers are
// used again for the next block.
#ifndef GEMMD_SERVICE_HOST_SUMS_H_
#define GEMMD_SERVICE_HOST_SUMS_H_

#include <vector>

#include "jit/problem/problem.h"
#include "service/host/blas.h"
#include "service/host/block.h"
#include "service/host/elements.h"
#include "service/host/gemm.h"

namespace gemmd::host {

// What the elements of A and B are taken for.
Reading ReadingOf(const jit::Problem& problem);

class Sums {
 public:
  // Both outlive the sums.
  Sums(const jit::Problem& problem, const GemmOperands& operands);

  // Sums of `block` of product `batch`, row-major and tight: values of the
  // accumulator's type, the caller's until the next call. The problem
  // reads_ab().
  std::vector<double>& Of(int64_t batch, const Block& block);

 private:
  // A block as f64, its lines tight and in the order of the matrix.
  struct Packed {
    std::vector<double> elements;
    int64_t leading_dimension = 0;
    int64_t k_stride = 0;     // Elements from one step of k to the next.
    int64_t line_stride = 0;  // From one row of A, or column of B, to the next.
    CBLAS_TRANSPOSE transpose = CblasNoTrans;  // As BLAS sees it, row-major.
  };

  // `k_is_line`: whether k counts the lines of the matrix.
  void Pack(const jit::MatrixLayout& layout, const char* matrix,
            const Block& block, bool k_is_line, Packed& packed) const;
  // to = A B + keep * to, over `depth` steps of k from `k` in the packed ones.
  void Multiply(const Block& block, Range depth, double keep,
                std::vector<double>& to) const;
  // What happens to the sums of `block` after the products of one step.
  void Add(const Block& block, int64_t first_k, Range depth);
  void AddScaledBlocks(const Block& block, int64_t first_k, Range depth);
  void Finish();

  const jit::Problem& problem_;
  const GemmOperands& operands_;
  const int64_t step_;  // Products between roundings; 0: only at the end.
  const Reading reading_;
  Packed a_;
  Packed b_;
  std::vector<double> sums_;
  std::vector<double> partial_;
};

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_SUMS_H_
