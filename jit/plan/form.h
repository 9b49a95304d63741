// Forms of operands: the layout of each, and the launch that derives it from
// the stored operand (templates/kernels/prepare). Pure functions.
#ifndef GEMMD_JIT_PLAN_FORM_H_
#define GEMMD_JIT_PLAN_FORM_H_

#include "jit/plan/plan.h"
#include "jit/problem/layout.h"
#include "templates/common/prepare.h"

namespace gemmd::jit {

// How one matrix of weights, stored as given, lies in fragment order: all
// blocks of 64 lines of a stage, one stage after the other, then their groups
// (templates/kernels/prepare/fragments.cu).
struct Fragments {
  Fragments(const MatrixLayout& stored, Form form);

  bool along_k;
  int64_t k, lines;
  int64_t stages;  // Of a block.
  int64_t blocks;
  int64_t groups;        // Of a block.
  int stage_groups = 0;  // Those that lie together.
  int64_t block_bytes;   // Of a stage of a block.
  int64_t group_bytes;   // Of a group of a block.

  int64_t groups_at() const { return blocks * stages * block_bytes; }
  int64_t groups_bytes() const { return blocks * groups * group_bytes; }
};

// The layout of `form` of an operand that is stored as `stored`. A split one
// has three times as many matrices: those of the high, middle and low parts of
// each, one behind the other.
// The metadata of a sparse one are words of 32 bits: a line for every 64 of its
// own (see templates/kernels/prepare/metadata.cu).
// Fragments are bytes, one line of them for a matrix.
// `stored` has elements of 1, 8 or 32 bits to be transposed, f32 to be split,
// of 4 or 8 bits to become fragments.
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
