// Products of f64 whose bits depend on nothing but their row and their column:
// BLAS adds in another order where there are more rows. Pure function.
#ifndef GEMMD_SERVICE_HOST_ORDERED_H_
#define GEMMD_SERVICE_HOST_ORDERED_H_

#include <cstdint>

namespace gemmd::host {

// Rows of A, or columns of B, and the elements from one to the next, and from
// one step of k to the next.
struct Lines {
  const double* elements = nullptr;
  int64_t stride = 0;
  int64_t k_stride = 0;
  int64_t count = 0;
};

// to = A B + keep * to over `depth` steps of k, each sum in ascending order of
// k. `to` is row-major and tight.
void MultiplyOrdered(const Lines& a, const Lines& b, int64_t depth, double keep,
                     double* to);

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_ORDERED_H_
