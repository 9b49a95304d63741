// A kernel table of a device that counts what it has loaded, and problems that
// tests ask it for.
#ifndef GEMMD_TESTS_SERVICE_KERNEL_TABLE_FIXTURE_H_
#define GEMMD_TESTS_SERVICE_KERNEL_TABLE_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "jit/plan/planner.h"
#include "service/engine/kernel_table.h"
#include "tests/service/counting_device.h"
#include "tests/service/fake_cache.h"
#include "tests/service/prepare.h"

namespace gemmd::testing {

class KernelTableTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::shared_ptr<const engine::Prepared>> Prepare(
      const jit::Problem& problem) {
    return testing::Prepare(table_, problem);
  }
  // What runs `problem` before its own kernel is there; may be null.
  std::shared_ptr<const engine::Prepared> Substitute(
      const jit::Problem& problem) {
    auto choice = table_.Choose(problem);
    EXPECT_TRUE(choice.ok()) << choice.status();
    EXPECT_TRUE(choice->wanted) << "its own kernel is loaded";
    return choice->prepared;
  }

  const jit::TemplateLibrary templates_ = jit::TemplateLibrary::Embedded();
  CountingDevice device_;
  FakeCache cache_;
  std::vector<std::string> refused_;  // What the table told.
  engine::KernelTable table_{
      device_,
      cache_,
      templates_,
      {.max_kernels = 8,
       .refused = [this](const std::string& kernel, const absl::Status& why) {
         EXPECT_FALSE(why.ok());
         refused_.push_back(kernel);
       }}};
};

inline jit::Problem Large() { return {.m = 4096, .n = 4096, .k = 4096}; }
inline jit::Problem Small() { return {.m = 100, .n = 200, .k = 64}; }
inline jit::Problem LongSum() { return {.m = 512, .n = 512, .k = 8192}; }

inline std::string NameOf(const jit::Plan& plan) {
  return jit::KernelName(plan.family, plan.config);
}

// The kernels of the best plans of `problem`, best first, each once.
inline std::vector<std::string> BestKernels(const jit::Problem& problem,
                                            int count) {
  std::vector<std::string> names;
  for (const jit::Plan& plan : jit::RankPlans(problem, {}, count)) {
    names.push_back(NameOf(plan));
  }
  return names;
}

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_SERVICE_KERNEL_TABLE_FIXTURE_H_
