// Which kernel a device's table gives to products that are to run together.
#include <gtest/gtest.h>

#include <vector>

#include "jit/plan/plan.h"
#include "service/engine/kernel_table.h"
#include "tests/service/counting_device.h"
#include "tests/service/fake_cache.h"
#include "tests/service/prepare.h"

namespace gemmd::engine {
namespace {

class ChooseGroupTest : public ::testing::Test {
 protected:
  const jit::TemplateLibrary templates_ = jit::TemplateLibrary::Embedded();
  testing::CountingDevice device_;
  testing::FakeCache cache_;
  KernelTable table_{device_, cache_, templates_};
};

jit::Problem Large() { return {.m = 4096, .n = 4096, .k = 4096}; }
jit::Problem Small() { return {.m = 100, .n = 200, .k = 64}; }

TEST_F(ChooseGroupTest, KernelsOfGroupsAndOfSingleProductsDoNotStandIn) {
  const std::vector<jit::Problem> group(20, Small());
  const auto choice = table_.ChooseGroup(group);
  EXPECT_EQ(choice.prepared, nullptr);
  ASSERT_TRUE(choice.wanted);
  EXPECT_TRUE(choice.wanted->config.grouped);
  const auto load = [&](const jit::Plan& plan) {
    ASSERT_TRUE(
        table_.Load(plan, KernelTable::Reach::kCompiler, absl::InfiniteFuture())
            .ok());
  };
  load(*choice.wanted);
  const auto single = table_.Choose(Small());
  ASSERT_TRUE(single.ok());
  EXPECT_EQ(single->prepared, nullptr);
  EXPECT_FALSE(table_.FallBack(Small()).ok());
  jit::Problem other = Small();
  other.a_order = jit::Order::kColumnMajor;
  ASSERT_TRUE(testing::Prepare(table_, other).ok());
  const std::vector<jit::Problem> others(20, other);
  EXPECT_EQ(table_.ChooseGroup(others).prepared, nullptr);
}

TEST_F(ChooseGroupTest, AGroupUsesItsKernelOrOneThatIsThere) {
  const std::vector<jit::Problem> small(20, Small());
  const std::vector<jit::Problem> large(20, Large());
  ASSERT_TRUE(table_
                  .Load(*table_.ChooseGroup(small).wanted,
                        KernelTable::Reach::kCompiler, absl::InfiniteFuture())
                  .ok());
  const auto own = table_.ChooseGroup(small);
  ASSERT_NE(own.prepared, nullptr);
  EXPECT_FALSE(own.wanted);
  EXPECT_GT(own.prepared->plan.predicted_cycles, 0);
  const auto substitute = table_.ChooseGroup(large);
  ASSERT_NE(substitute.prepared, nullptr);
  EXPECT_EQ(substitute.prepared->kernel, own.prepared->kernel);
  ASSERT_TRUE(substitute.wanted);
  EXPECT_NE(substitute.wanted->config, own.prepared->plan.config);
}

TEST_F(ChooseGroupTest, ARefusedKernelOfAGroupGivesWayToTheNextBest) {
  const std::vector<jit::Problem> group(20, Small());
  const jit::Plan best = *table_.ChooseGroup(group).wanted;
  device_.Refuse(jit::KernelName(best.family, best.config));
  EXPECT_FALSE(
      table_.Load(best, KernelTable::Reach::kCompiler, absl::InfiniteFuture())
          .ok());
  const jit::Plan next = *table_.ChooseGroup(group).wanted;
  EXPECT_NE(next.config, best.config);
}

}  // namespace
}  // namespace gemmd::engine
