// Independent products on one lane: which go together, what they return, and
// what is left when one of them fails.
#include "service/engine/group.h"

#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/service/test_engine.h"

namespace gemmd::engine {
namespace {

using testing::Answer;
using testing::TestEngine;

class GroupTest : public ::testing::Test {
 protected:
  // What lanes do, a word a step; a group with how many it has.
  std::shared_ptr<testing::Hooks> Hooks() {
    auto hooks = std::make_shared<testing::Hooks>();
    const auto note = [this](const std::string& what) {
      std::lock_guard lock(mutex_);
      absl::StrAppend(&log_, what, " ");
      return absl::OkStatus();
    };
    hooks->multiply = [this, note](const jit::Problem& problem,
                                   const jit::Plan& plan) {
      if (problem.m == bad_rows_) return absl::DataLossError("bad rows");
      return plan.config.grouped ? absl::OkStatus() : note("one");
    };
    hooks->multiply_group = [note](size_t members) {
      return note(absl::StrCat("group", members));
    };
    hooks->synchronize = [note] { return note("wait"); };
    return hooks;
  }
  std::string Log() {
    std::lock_guard lock(mutex_);
    return std::exchange(log_, "");
  }

  // Ones times twos, inline: elements are 2 k.
  Product Inline(int64_t m, int64_t k = 4) {
    Product product = {.problem = TestEngine::Problem(m)};
    product.problem.k = k;
    for (auto [input, layout, value] :
         {std::tuple(&product.a, product.problem.a(), 1.0f),
          std::tuple(&product.b, product.problem.b(), 2.0f)}) {
      bytes_.push_back(testing::Fill(layout, layout.width(),
                                     [=](int64_t, int64_t) { return value; }));
      pieces_.push_back(bytes_.back());
      input->pieces = {pieces_.back()};
      input->pitch_bytes = layout.width_bytes();
      input->matrix_bytes = layout.lines() * layout.width_bytes();
    }
    product.d.pitch_bytes = product.problem.d().width_bytes();
    return product;
  }

  absl::StatusOr<GroupResult> Run(std::vector<Product> products) {
    Answer<GroupResult> answer;
    engine_->MultiplyTogether(std::move(products), 0, {}, answer.done());
    return answer.Wait();
  }

  std::mutex mutex_;
  std::string log_;
  int64_t bad_rows_ = -1;
  std::deque<std::string> bytes_;
  std::deque<absl::Span<const char>> pieces_;
  TestEngine engine_{{}, {Hooks()}};
};

float First(device::HostBuffer& buffer) {
  return testing::Get(jit::DataType::kF32, buffer.bytes().data(), 0);
}

TEST_F(GroupTest, ManyOfOneKindAreOneLaunchAndOneWait) {
  std::vector<Product> products;
  for (int64_t m = 0; m < 12; ++m) products.push_back(Inline(m, m + 1));
  const auto results = Run(std::move(products));
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_TRUE(absl::StartsWith(Log(), "group11 wait ")) << "one has no rows";
  ASSERT_EQ(results->size(), 12u);
  EXPECT_EQ((*results)[0].d, nullptr);
  EXPECT_EQ((*results)[0].execution.device, (*results)[1].execution.device);
  for (size_t m = 1; m < 12; ++m) {
    const ProductResult& result = (*results)[m];
    EXPECT_EQ(First(*result.d), 2.0f * static_cast<float>(m + 1));
    EXPECT_EQ(result.d->bytes().size(), m * 3 * sizeof(float));
    EXPECT_TRUE(absl::EndsWith(result.execution.kernel, "_grouped"));
    EXPECT_EQ(result.execution.splits, 1);
  }
}

TEST_F(GroupTest, EveryKindHasItsOwnLaunch) {
  std::vector<Product> products;
  for (int i = 0; i < 20; ++i) {
    products.push_back(Inline(2));
    if (i % 2 == 1) products.back().problem.alpha = 3;
  }
  products.push_back(TestEngine::Zeros());
  products.push_back(Inline(2));
  products.back().problem.epilogue.measures_amax = true;
  const auto results = Run(std::move(products));
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_TRUE(absl::StartsWith(Log(), "group10 group10 one one wait "));
  EXPECT_EQ(First(*(*results)[0].d), 8);
  EXPECT_EQ(First(*(*results)[1].d), 24);
  EXPECT_EQ(First(*(*results)[20].d), 0);
  EXPECT_EQ(*(*results)[21].amax, 8);
}

TEST_F(GroupTest, WhatFailsIsNamedAndTheNextCallIsRight) {
  bad_rows_ = 3;
  std::vector<Product> products;
  for (int64_t m = 1; m < 5; ++m) {
    products.push_back(Inline(m));
    products.back().problem.epilogue.measures_amax = true;  // Goes alone.
  }
  EXPECT_EQ(Run(std::move(products)).status().message(), "groups[2]: bad rows");
  bad_rows_ = -1;
  EXPECT_TRUE(Run({Inline(3)}).ok());
  EXPECT_TRUE(Run({})->empty());
}

TEST_F(GroupTest, WithoutACompilerEachUsesWhatIsThere) {
  ASSERT_TRUE(engine_.Multiply(Inline(2)).Wait().ok());
  engine_.cache().Fail(absl::FailedPreconditionError("no compiler"));
  std::vector<Product> products;
  for (int i = 0; i < 10; ++i) products.push_back(Inline(2));
  const auto results = Run(std::move(products));
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_FALSE(absl::EndsWith((*results)[9].execution.kernel, "_grouped"));
  EXPECT_EQ(First(*(*results)[9].d), 8);
}

TEST_F(GroupTest, TensorsOfOthersAreIndependentUnlessWritten) {
  const auto x = engine_.Tensor(), y = engine_.Tensor(), z = engine_.Tensor();
  const auto copy = TestEngine::Copy;
  EXPECT_TRUE(AreIndependent({}));
  const std::vector<Product> apart = {copy(x, y), copy(x, z)};
  EXPECT_TRUE(AreIndependent(apart));
  const std::vector<Product> in_place = {copy(x, x), copy(y, z)};
  EXPECT_TRUE(AreIndependent(in_place)) << "its own C";
  const std::vector<Product> read = {copy(x, y), copy(y, z)};
  EXPECT_FALSE(AreIndependent(read));
  const std::vector<Product> written = {copy(x, z), copy(y, z)};
  EXPECT_FALSE(AreIndependent(written));
  // Second results count as the first ones.
  const auto w = engine_.Tensor();
  std::vector<Product> two = {copy(x, y), copy(x, z)};
  two[0].auxiliary.tensor = w;
  EXPECT_TRUE(AreIndependent(two));
  two[1].auxiliary.tensor = w;
  EXPECT_FALSE(AreIndependent(two));
  two[1].auxiliary.tensor = y;
  EXPECT_FALSE(AreIndependent(two));
  two[1] = copy(w, z);
  EXPECT_FALSE(AreIndependent(two));
}

TEST_F(GroupTest, LongWorkIsNoGroup) {
  Product product = TestEngine::Zeros(1 << 14);
  product.problem.alpha = 1;
  product.problem.n = product.problem.k = 1 << 14;
  EXPECT_TRUE(AreShort(std::vector<Product>(10, product)));
  EXPECT_FALSE(AreShort(std::vector<Product>(12, product)));
}

}  // namespace
}  // namespace gemmd::engine
