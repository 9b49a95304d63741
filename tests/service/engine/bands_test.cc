// Which products are cut into bands of lines, and where.
#include "service/engine/bands.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "tests/service/bands_fixture.h"
#include "tests/service/fake_region.h"

namespace gemmd::engine {
namespace {

using jit::Order;
using testing::FakeRegion;

class BandsTest : public testing::BandsFixture {
 protected:
  std::vector<int64_t> Lines(const Product& product) {
    std::vector<int64_t> lines;
    for (const Band& band : Cut(product)) {
      lines.push_back(band.product.problem.d().lines());
    }
    return lines;
  }
};

TEST_F(BandsTest, LinesAreCutWhereTheyAreWorthIt) {
  using Lines = std::vector<int64_t>;
  EXPECT_EQ(this->Lines(SharedProduct(Problem(512))), Lines());
  EXPECT_EQ(this->Lines(SharedProduct(Problem(513))), (Lines{512, 1}));
  EXPECT_EQ(this->Lines(SharedProduct(Problem(1536))), (Lines{512, 512, 512}));
  EXPECT_EQ(this->Lines(SharedProduct(Problem(1200))), (Lines{512, 512, 176}));
  EXPECT_EQ(this->Lines(SharedProduct(Exchanged())), (Lines{512, 512, 176}));
  // Short lines: as many as have some bytes.
  jit::Problem problem = Problem(20'000);
  problem.n = 120;  // 256 bytes for a line of A and of D.
  EXPECT_EQ(this->Lines(SharedProduct(problem)), (Lines{16384, 3616}));
  problem.m = 70'000;
  problem.beta = 1;
  problem.n = 60;  // The same, with C.
  EXPECT_EQ(this->Lines(SharedProduct(problem)),
            (Lines{16384, 16384, 16384, 16384, 4464}));
}

TEST_F(BandsTest, ALargeProductIsCutIntoSixteen) {
  jit::Problem problem = Problem(8192);
  problem.n = problem.k = 8192;
  Product product = {.problem = problem,
                     .a = {.pieces = {region_->bytes()}, .pitch_bytes = 16384},
                     .b = {.pieces = {region_->bytes()}, .pitch_bytes = 16384},
                     .d = {.place = {region_, 0}, .pitch_bytes = 16384}};
  EXPECT_EQ(Lines(product), std::vector<int64_t>(16, 512));
  // Longer ones are of no use.
  problem.n = problem.k = 16;
  problem.m = int64_t{1} << 24;
  product.problem = problem;
  EXPECT_EQ(Lines(product), std::vector<int64_t>(32, int64_t{1} << 19));
}

TEST_F(BandsTest, EachBandHasTheKernelOfTheWhole) {
  const Product product = SharedProduct(Problem());
  const jit::Plan plan = jit::ChoosePlan(product.problem, device_);
  for (const Band& band : Cut(product)) {
    EXPECT_EQ(band.plan.family, plan.family);
    EXPECT_EQ(band.plan.config, plan.config);
    EXPECT_EQ(band.plan.exchanged ? band.plan.columns : band.plan.rows,
              band.product.problem.m);
  }
}

TEST_F(BandsTest, WhatDependsOnAllLinesStaysWhole) {
  const auto cut = [&](const std::function<void(jit::Problem&)>& change) {
    jit::Problem problem = Problem();
    change(problem);
    return !Cut(SharedProduct(problem)).empty();
  };
  EXPECT_TRUE(cut([](jit::Problem&) {}));
  EXPECT_FALSE(cut([](jit::Problem& p) { p.epilogue.measures_amax = true; }));
  EXPECT_FALSE(cut([](jit::Problem& p) { p.batch = 2; }));
  EXPECT_FALSE(cut([](jit::Problem& p) { p.alpha = 0; }));
  // Its lines run across those of D.
  EXPECT_FALSE(cut([](jit::Problem& p) { p.a_order = Order::kColumnMajor; }));
  jit::Problem split = Problem();
  const Product product = SharedProduct(split);
  jit::Plan plan = jit::ChoosePlan(split, device_);
  plan.config.split_k = true;
  EXPECT_TRUE(CutIntoBands(product, plan, device_).empty());
}

TEST_F(BandsTest, ResultsThatDoNotGoToSharedMemoryStayWhole) {
  jit::Problem problem = Problem();
  problem.epilogue = {.activation = jit::Activation::kRelu,
                      .writes_auxiliary = true};
  EXPECT_FALSE(Cut(SharedProduct(problem)).empty());
  Product product = SharedProduct(problem);
  product.d.place = {};
  EXPECT_TRUE(Cut(product).empty());
  product = SharedProduct(problem);
  product.auxiliary.place = {};
  EXPECT_TRUE(Cut(product).empty());
  product = SharedProduct(problem);
  product.d.place = {std::make_shared<FakeRegion>(1, /*device=*/0), 0};
  EXPECT_TRUE(Cut(product).empty());
}

TEST_F(BandsTest, OperandsOfTheBandsThatAreOnTheDeviceStayWhole) {
  Product product = SharedProduct(Problem());
  product.a.region = std::make_shared<FakeRegion>(1, /*device=*/0);
  EXPECT_TRUE(Cut(product).empty());
  product = SharedProduct(Problem());
  product.a = {.tensor = std::make_shared<Tensor>(
                   Tensor::Identity(), product.problem.a(), QuotaHold())};
  EXPECT_TRUE(Cut(product).empty());
}

// A band would overwrite what a later one reads.
TEST_F(BandsTest, AResultOverAnOperandStaysWhole) {
  jit::Problem problem = Problem();
  problem.beta = 1;
  const auto at = [&](const Input& input) {
    return input.pieces[0].data() - region_->bytes().data();
  };
  Product product = SharedProduct(problem);
  for (const int64_t offset :
       {at(product.a), at(product.b), at(product.c) + 2,
        at(product.c) - int64_t{8192}, at(product.c) + int64_t{8192}}) {
    product.d.place.offset = offset;
    EXPECT_TRUE(Cut(product).empty()) << offset;
  }
  product = SharedProduct(problem);
  product.d.place.offset = at(product.c);
  EXPECT_FALSE(Cut(product).empty());
  product.d.pitch_bytes += 2;
  EXPECT_TRUE(Cut(product).empty()) << "lines leave C's behind";
}

}  // namespace
}  // namespace gemmd::engine
