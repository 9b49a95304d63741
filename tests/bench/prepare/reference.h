// What a form of an operand holds, computed on the host element by element.
// Pure functions.
#ifndef GEMMD_TESTS_BENCH_PREPARE_REFERENCE_H_
#define GEMMD_TESTS_BENCH_PREPARE_REFERENCE_H_

#include <string>

#include "jit/plan/plan.h"
#include "jit/problem/layout.h"

namespace gemmd::bench {

// The lines of FormLayout(stored, form) without gaps, of the gapless lines
// `bytes` of `stored`. Bits behind the last of a line are zero.
std::string Reference(const jit::MatrixLayout& stored, jit::Form form,
                      const std::string& bytes);

// Random bytes; for a split, f32 of all kinds.
std::string RandomOperand(const jit::MatrixLayout& stored, jit::Form form);

}  // namespace gemmd::bench

#endif  // GEMMD_TESTS_BENCH_PREPARE_REFERENCE_H_
