// A test's view of a case: it compiles, and nothing is undefined or wrong with
// any of its problems under a number of seeds.
#ifndef GEMMD_TESTS_EMULATOR_RUN_CASE_H_
#define GEMMD_TESTS_EMULATOR_RUN_CASE_H_

#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "jit/problem/problem_line.h"
#include "tests/emulator/product.h"

namespace gemmd::emulator {

inline void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

struct Seeds {
  uint64_t first;
  uint64_t count;
};

inline void ExpectRight(const Case& c, const Seeds& seeds) {
  const auto kernels = CompileCase(c);
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  for (const auto& problems : c.launches()) {
    for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count;
         ++seed) {
      const auto faults = RunLaunch(c, *kernels, problems, seed);
      ASSERT_TRUE(faults.ok()) << faults.status();
      for (const std::string& fault : *faults) {
        ADD_FAILURE() << jit::ProblemLine(problems[0]) << ", seed " << seed
                      << ": " << fault;
      }
    }
  }
}

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_RUN_CASE_H_
