// Matrices of one product in emulated device memory. Thread-compatible.
#ifndef GEMMD_TESTS_EMULATOR_OPERANDS_H_
#define GEMMD_TESTS_EMULATOR_OPERANDS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "jit/plan/plan.h"
#include "jit/problem/problem.h"
#include "service/host/gemm.h"
#include "tests/emulator/machine/global_memory.h"

namespace gemmd::emulator {

class Operands {
 public:
  // Every byte of what is to be written.
  static constexpr char kUnwritten = 0x5b;

  // Filled by the seed. Even ones give small integers, which every sum holds
  // exactly; odd ones numbers of many sizes, where the arithmetic of the plan's
  // sums is known to the last bit. What is to be written holds what looks like
  // numbers that nobody made.
  Operands(const jit::Problem& problem, const jit::Plan& plan, uint64_t seed);

  GlobalBlock a, b, c, d, bias, a_scale, b_scale, d_scale, auxiliary, amax;

  // What the host device's arithmetic makes of them, bit for bit.
  struct Results {
    std::string d;
    std::string auxiliary;
    float amax = 0;
  };
  Results Expected(const jit::Problem& problem) const;
  // With those columns of A taken for zero.
  Results ExpectedWithout(const jit::Problem& problem,
                          const std::function<bool(int64_t k)>& left_out) const;
  // With the lines of C so many lines further on.
  Results ExpectedWithCFrom(const jit::Problem& problem, int64_t lines) const;

  // Parts into which k is split, in turn by stages.
  int splits() const { return plan_.splits; }
  // All of them.
  std::vector<GlobalBlock*> blocks();

 private:
  Results Compute(const jit::Problem& problem, const char* a,
                  const char* c) const;

  const jit::Plan plan_;
  const bool numbers_;
};

// Where `d` differs from `expected` by more than the relative tolerance, in
// words; empty when nowhere.
std::string Difference(const std::string& what, const jit::MatrixLayout& layout,
                       double tolerance, const char* d,
                       const std::string& expected);

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_OPERANDS_H_
