// What each option of an epilogue may be, the default first: the one table for
// validation, problem lines, programs and documents. Immutable, thread-safe.
#ifndef GEMMD_JIT_PROBLEM_EPILOGUE_CHOICES_H_
#define GEMMD_JIT_PROBLEM_EPILOGUE_CHOICES_H_

#include "jit/problem/problem.h"

namespace gemmd::jit {

inline constexpr Activation kActivations[] = {
    Activation::kNone, Activation::kRelu, Activation::kGeluErf,
    Activation::kGeluTanh, Activation::kSilu};
inline constexpr Extent kBiasExtents[] = {Extent::kNone, Extent::kRow,
                                          Extent::kColumn};
inline constexpr Extent kAScaleExtents[] = {Extent::kNone, Extent::kTensor,
                                            Extent::kRow, Extent::kBlock};
inline constexpr Extent kBScaleExtents[] = {Extent::kNone, Extent::kTensor,
                                            Extent::kColumn, Extent::kBlock};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PROBLEM_EPILOGUE_CHOICES_H_
