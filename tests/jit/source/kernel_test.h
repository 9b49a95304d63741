// What every kernel must be: compiled without spills, its wgmma not
// serialised, of the tensor core's own instructions: the family's, sparse or
// dense, with X where the family has it. Through NVRTC, without a GPU.
#ifndef GEMMD_TESTS_JIT_SOURCE_KERNEL_TEST_H_
#define GEMMD_TESTS_JIT_SOURCE_KERNEL_TEST_H_

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "jit/compile/compiler.h"
#include "jit/plan/plan.h"

namespace gemmd::jit {

class KernelTest : public testing::Test {
 protected:
  void SetUp() override;

  // Fails where the kernel of `family` and `config` is not. Looks at each once.
  void ExpectGood(const Family& family, const Config& config);
  void ExpectGood(const Plan& plan) { ExpectGood(plan.family, plan.config); }

  std::unique_ptr<Compiler> compiler_;

 private:
  std::set<std::string> seen_;
};

}  // namespace gemmd::jit

#endif  // GEMMD_TESTS_JIT_SOURCE_KERNEL_TEST_H_
