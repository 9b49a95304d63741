// Random elements for timing: finite, of several magnitudes, with random
// signs. The power that products take, and so their speed, depends on what is
// multiplied. Pure function.
#ifndef GEMMD_SERVICE_GPU_RANDOM_ELEMENTS_H_
#define GEMMD_SERVICE_GPU_RANDOM_ELEMENTS_H_

#include "absl/types/span.h"
#include "jit/problem/data_type.h"

namespace gemmd::gpu {

// Fills `bytes`, a multiple of 8, with elements of `type`; the same ones each
// time.
void FillRandomly(jit::DataType type, absl::Span<char> bytes);

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_RANDOM_ELEMENTS_H_
