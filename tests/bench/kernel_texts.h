// The files of tests/bench/kernels, built into the binary.
#ifndef GEMMD_TESTS_BENCH_KERNEL_TEXTS_H_
#define GEMMD_TESTS_BENCH_KERNEL_TEXTS_H_

namespace gemmd::bench {

extern const char kElementsText[];
extern const char kArgumentsText[];
extern const char kFillText[];
extern const char kCompareText[];
extern const char kForeignText[];
extern const char kCeilingText[];

}  // namespace gemmd::bench

#endif  // GEMMD_TESTS_BENCH_KERNEL_TEXTS_H_
