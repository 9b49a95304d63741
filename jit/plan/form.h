// Forms of operands: the layout of each, and the launch that derives it from
// the stored operand (templates/kernels/prepare). Pure functions.
#ifndef GEMMD_JIT_PLAN_FORM_H_
#define GEMMD_JIT_PLAN_FORM_H_

#include "jit/plan/plan.h"
#include "jit/problem/layout.h"
#include "templates/common/prepare.h"

namespace gemmd::jit {

// The layout of `form` of an operand that is stored as `stored`. A split one
// has three times as many matrices: those of the high, middle and low parts of
// each, one behind the other.
// The metadata of a sparse one are words of 32 bits: a line for every 64 of its
// own (see templates/kernels/prepare/metadata.cu).
// `stored` has elements of 1, 8 or 32 bits to be transposed, f32 to be split.
MatrixLayout FormLayout(const MatrixLayout& stored, Form form);

struct PrepareLaunch {
  PrepareArguments arguments;  // Null pointers: memory is the device's matter.
  int64_t from_offset = 0;     // Bytes, where the first line is read from.
  int grid = 0;                // CTAs of kPrepareThreads.
};

// What derives `form`, which is not kStored, of an operand that is not empty.
PrepareLaunch PrepareLaunchOf(const MatrixLayout& stored, Form form);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PLAN_FORM_H_
