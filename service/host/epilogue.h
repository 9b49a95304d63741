// From the sums of one block to D. Thread-compatible; its buffers are used
// again for the next block.
#ifndef GEMMD_SERVICE_HOST_EPILOGUE_H_
#define GEMMD_SERVICE_HOST_EPILOGUE_H_

#include <cstdint>
#include <vector>

#include "jit/problem/problem.h"
#include "service/host/block.h"
#include "service/host/gemm.h"

namespace gemmd::host {

class Epilogue {
 public:
  // Both outlive the epilogue. Sets *operands.amax to 0 if it is asked for.
  Epilogue(const jit::Problem& problem, const GemmOperands& operands);

  // Writes `block` of result `batch`. `sums` are those of its products,
  // row-major and tight; null for the problems that do not read A and B.
  void Write(int64_t batch, const Block& block, const double* sums);

 private:
  // The elements of D on one line of a block: element i is at row
  // `row + i * row_step`, column `column + i * (1 - row_step)`.
  struct Span {
    int64_t row;
    int64_t column;
    int64_t row_step;  // 0 or 1.
    int64_t count;
  };

  void WriteFloats(const Span& span, const double* sums, int64_t stride,
                   const char* c, char* d, char* auxiliary, int64_t first);
  void WriteIntegers(const Span& span, const double* sums, int64_t stride,
                     const char* c, char* d, int64_t first);
  // What the activation is applied to, in line_.
  void Combine(const Span& span, const double* sums, int64_t stride,
               const char* c, int64_t first);

  const jit::Problem& problem_;
  const GemmOperands& operands_;
  std::vector<float> line_;
  std::vector<float> c_line_;
};

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_EPILOGUE_H_
