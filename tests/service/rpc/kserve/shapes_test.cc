#include "service/rpc/kserve/shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jit/problem/problem.h"

namespace gemmd::rpc::kserve {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kMost = jit::kMaxDimension;

Matrices Batch(Dimensions batch) { return {std::move(batch), 2, 2}; }

Matrices Product(const Matrices& a, const Matrices& b) {
  return ProductOf(a, b).value();
}

TEST(ShapesTest, CountsElements) {
  EXPECT_EQ(CountOf({}, "A").value(), 1);
  EXPECT_EQ(CountOf({3, 4, 5}, "A").value(), 60);
  EXPECT_EQ(CountOf({3, 0, 5}, "A").value(), 0);
  EXPECT_EQ(CountOf({kMost}, "A").value(), kMost);
}

TEST(ShapesTest, CountsNothingThatCannotBe) {
  const int64_t least = std::numeric_limits<int64_t>::min();
  for (const Dimensions& shape : {Dimensions{-1},
                                  {least},
                                  {least, least},
                                  {kMost + 1},
                                  {kMost, kMost},
                                  {0, kMost, kMost},
                                  {1 << 20, 1 << 20, 2},
                                  {4, least},
                                  Dimensions(kMaxRank + 1, 1)}) {
    EXPECT_EQ(CountOf(shape, "A").status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(ShapesTest, AVectorIsARowOfAAndAColumnOfB) {
  const Matrices a = AsA({7}).value();
  EXPECT_EQ(a.rows, 1);
  EXPECT_EQ(a.columns, 7);
  const Matrices b = AsB({7}).value();
  EXPECT_EQ(b.rows, 7);
  EXPECT_EQ(b.columns, 1);
  EXPECT_THAT(ShapeOf(Product(a, b), a, b), ElementsAre());
  const Matrices wide = AsB({3, 7, 5}).value();
  EXPECT_THAT(ShapeOf(Product(a, wide), a, wide), ElementsAre(3, 5));
  EXPECT_FALSE(AsA({}).ok());
  EXPECT_FALSE(AsB({}).ok());
}

TEST(ShapesTest, BatchesAreBroadcastFromTheRight) {
  EXPECT_THAT(Product(Batch({2, 1}), Batch({3})).batch, ElementsAre(2, 3));
  EXPECT_THAT(Product(Batch({}), Batch({4})).batch, ElementsAre(4));
  EXPECT_THAT(Product(Batch({1, 0}), Batch({5, 1})).batch, ElementsAre(5, 0));
  EXPECT_FALSE(ProductOf(Batch({2}), Batch({3})).ok());
  EXPECT_FALSE(ProductOf(Batch({0}), Batch({3})).ok());
  // More products than there can be, of few matrices.
  EXPECT_FALSE(ProductOf(Batch({1 << 20, 1}), Batch({1, 1 << 20})).ok());
}

TEST(ShapesTest, SaysHowMatricesServe) {
  const Matrices product = Product(Batch({2, 1}), Batch({3}));
  EXPECT_EQ(HowServes(Batch({2, 3}), product), Serves::kEach);
  EXPECT_EQ(HowServes(Batch({1, 1}), product), Serves::kAll);
  EXPECT_EQ(HowServes(Batch({}), product), Serves::kAll);
  EXPECT_EQ(HowServes(Batch({2, 1}), product), Serves::kRepeated);
  EXPECT_THAT(PlacesOf(Batch({2, 1}), product), ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_THAT(PlacesOf(Batch({3}), product), ElementsAre(0, 1, 2, 0, 1, 2));
  const Matrices three = Product(Batch({2, 1, 2}), Batch({3, 1}));
  EXPECT_THAT(PlacesOf(Batch({2, 1, 2}), three),
              ElementsAre(0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3));
}

}  // namespace
}  // namespace gemmd::rpc::kserve
