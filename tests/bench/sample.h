// Problems that nobody chose: a seeded, stratified sample of products. The same
// count and seed give the same problems on every machine. Pure functions.
#ifndef GEMMD_TESTS_BENCH_SAMPLE_H_
#define GEMMD_TESTS_BENCH_SAMPLE_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "jit/problem/problem.h"

namespace gemmd::bench {

// What a problem is like, which decides what limits it. One figure over all
// strata would hide the weak ones.
enum class Stratum : uint8_t {
  kVector,   // m or n is 1.
  kOuter,    // k of 1 to 16.
  kOdd,      // A leading dimension is no multiple of 16 bytes.
  kSkinny,   // m or n of 2 to 32.
  kLongK,    // m, n up to 512 and k from 8192.
  kSmall,    // Up to 2^28 multiplications: start-up counts.
  kRegular,  // All others.
};
inline constexpr Stratum kStrata[] = {
    Stratum::kRegular, Stratum::kSmall, Stratum::kLongK, Stratum::kSkinny,
    Stratum::kVector,  Stratum::kOuter, Stratum::kOdd};

absl::string_view Name(Stratum stratum);

// The first of the list above that fits.
Stratum StratumOf(const jit::Problem& problem);

// `count` different problems like `like`, all four layouts: dimensions of the
// grid {16, 32, ..., 8192, 12288, 16384} and multiples of 8 between them, and
// a fixed share of every stratum. Of layouts those that there are for the type.
std::vector<jit::Problem> SampleProblems(int count, uint64_t seed,
                                         const jit::Problem& like);

}  // namespace gemmd::bench

#endif  // GEMMD_TESTS_BENCH_SAMPLE_H_
