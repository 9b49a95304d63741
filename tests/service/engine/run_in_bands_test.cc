// Products that run in bands of lines: the result is that of the whole, and
// what goes wrong is told once nothing is written any more.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "jit/plan/form.h"
#include "service/engine/bands.h"
#include "service/host/host_device.h"
#include "tests/service/bands_fixture.h"
#include "tests/service/deriving_device.h"
#include "tests/service/fake_device.h"
#include "tests/service/gate.h"
#include "tests/service/test_engine.h"

namespace gemmd::engine {
namespace {

using jit::DataType;
using jit::Extent;
using jit::Order;

class BandsTest : public testing::BandsFixture {
 protected:
  Prepared PreparedOf(const jit::Problem& problem) {
    Prepared prepared = {.plan = jit::ChoosePlan(problem, device_)};
    jit::CompiledKernel compiled;
    compiled.cubin = "cubin";
    auto kernel = std::make_shared<LoadedKernel>();
    kernel->kernel = host_->Load(compiled, prepared.plan).value();
    prepared.kernel = std::move(kernel);
    return prepared;
  }

  std::string Bytes() const {
    return std::string(region_->bytes().data(), static_cast<size_t>(end_));
  }

  // What the region holds in the end, whole and in bands.
  void ExpectSame(const std::function<Product()>& make) {
    Product product = make();
    const Prepared prepared = PreparedOf(product.problem);
    Phases phases;
    auto results = RunProduct(*lane_, prepared, product, {}, phases);
    ASSERT_TRUE(results.ok()) << results.status();
    const std::string expected = Bytes();

    product = make();
    const std::string before = Bytes();
    EXPECT_FALSE(before == expected) << "D is made anew";
    const auto bands = CutIntoBands(product, prepared.plan, device_);
    ASSERT_EQ(bands.size(), 3u);
    results = RunInBands(*lane_, prepared, product, bands, {}, phases);
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_EQ(results->d, nullptr);
    EXPECT_TRUE(Bytes() == expected);
    EXPECT_GT(phases.execute, absl::ZeroDuration());
  }

  const std::unique_ptr<device::Device> host_ =
      host::CreateHostDevice({.memory_bytes = int64_t{256} << 20});
  const std::unique_ptr<device::Lane> lane_ = host_->CreateLane().value();
};

TEST_F(BandsTest, TheResultIsThatOfTheWhole) {
  for (const jit::Problem& problem : {Problem(), Exchanged()}) {
    for (const int64_t padding : {0, 6}) {
      ExpectSame([&] { return SharedProduct(problem, padding); });
    }
  }
}

TEST_F(BandsTest, WhatAllBandsReadMayLieInEitherOrder) {
  jit::Problem problem = Problem();
  problem.b_order = Order::kRowMajor;
  ExpectSame([&] { return SharedProduct(problem); });
  problem = Exchanged();
  problem.a_order = Order::kColumnMajor;
  ExpectSame([&] { return SharedProduct(problem); });
}

TEST_F(BandsTest, EpiloguesAreCutToo) {
  for (jit::Problem problem : {Problem(), Exchanged()}) {
    problem.beta = 0.5f;
    for (const Extent bias : {Extent::kRow, Extent::kColumn}) {
      problem.n = problem.m == 1200 ? 2048 : problem.n;
      problem.m = problem.n == 1200 ? 2048 : problem.m;
      problem.epilogue = {.bias = bias,
                          .d_scale = true,
                          .activation = jit::Activation::kRelu,
                          .writes_auxiliary = true};
      ExpectSame([&] { return SharedProduct(problem, 6); });
    }
  }
}

TEST_F(BandsTest, ScalesAreCutToo) {
  for (jit::Problem problem : {Problem(), Exchanged()}) {
    problem.a_type = problem.b_type = DataType::kE4m3;
    (problem.m == 1200 ? problem.n : problem.m) = 4112;
    problem.k = 16;
    problem.epilogue = {.a_scale = Extent::kRow, .b_scale = Extent::kColumn};
    ExpectSame([&] { return SharedProduct(problem); });
    problem.epilogue = {.a_scale = Extent::kTensor, .b_scale = Extent::kTensor};
    ExpectSame([&] { return SharedProduct(problem); });
  }
}

TEST_F(BandsTest, CMayBeD) {
  jit::Problem problem = Problem();
  problem.beta = 1;
  ExpectSame([&] {
    Product product = SharedProduct(problem, 4);
    product.d.place.offset =
        product.c.pieces[0].data() - region_->bytes().data();
    return product;
  });
}

TEST_F(BandsTest, OperandsMayComeWithTheRequestInPieces) {
  ExpectSame([&] {
    Product product = SharedProduct(Problem());
    for (Input* input : {&product.a, &product.b}) {
      const absl::Span<const char> all = input->pieces[0];
      input->region = nullptr;
      input->pieces = {all.subspan(0, 1001), all.subspan(1001, 0),
                       all.subspan(1001, 8190), all.subspan(9191)};
    }
    return product;
  });
}

TEST_F(BandsTest, WhatAllBandsReadMayBeATensorAndIsBroughtOnce) {
  Product product = SharedProduct(Problem());
  auto matrix = lane_->Allocate(product.problem.b()).value();
  ASSERT_TRUE(UploadBatch(*lane_, product.b, {}, *matrix).ok());
  auto b = std::make_shared<Tensor>(
      Tensor::Identity(), Tensor::Contents{QuotaHold(), std::move(matrix)});
  int uploads = 0;
  auto hooks = std::make_shared<testing::Hooks>();
  hooks->upload = [&] {
    ++uploads;
    return absl::OkStatus();
  };
  testing::FakeDevice counting("fake", hooks, int64_t{256} << 20);
  const auto lane = counting.CreateLane().value();
  const Prepared prepared = PreparedOf(product.problem);
  Phases phases;
  ASSERT_TRUE(
      RunInBands(*lane, prepared, product, Cut(product), {}, phases).ok());
  EXPECT_EQ(uploads, 4) << "B, and A in three";
  uploads = 0;
  product.b = {.tensor = b};
  const std::string before = Bytes();
  ASSERT_TRUE(
      RunInBands(*lane, prepared, product, Cut(product), {}, phases).ok());
  EXPECT_EQ(uploads, 3);
  EXPECT_TRUE(Bytes() == before);
}

// Planes of f32, metadata of what is sparse, fragments of weights: each of what
// it is derived of, as soon as that is there.
TEST_F(BandsTest, FormsAreDerivedOfEachBandAndOnceOfWhatAllRead) {
  testing::DerivingDevice deriving(int64_t{256} << 20);
  Forms forms(deriving, 0, nullptr);
  const auto lane = deriving.CreateLane().value();
  const auto derivations = [&](const jit::Problem& problem) {
    const Product product = SharedProduct(problem);
    Prepared prepared = PreparedOf(problem);
    prepared.forms = &forms;
    for (const DerivedForm& form : forms.Missing(prepared.plan)) {
      testing::AddForm(forms, deriving, form);
    }
    const int before = deriving.derivations();
    Phases phases;
    const auto bands = CutIntoBands(product, prepared.plan, device_);
    EXPECT_EQ(bands.size(), 3u);
    EXPECT_TRUE(RunInBands(*lane, prepared, product, bands, {}, phases).ok());
    return deriving.derivations() - before;
  };
  jit::Problem planes = Problem();
  planes.a_type = planes.b_type = planes.c_type = planes.d_type =
      DataType::kF32;
  planes.n = 2048;
  EXPECT_EQ(derivations(planes), 3 + 1);
  jit::Problem last = planes;
  last.m = 176;
  EXPECT_EQ(deriving.a(), jit::FormLayout(last.a(), jit::Form::kSplit));
  EXPECT_EQ(deriving.b(), jit::FormLayout(last.b(), jit::Form::kSplit));
  jit::Problem sparse = Problem();
  sparse.k = 64;
  sparse.sparse = jit::Sparse::kA;
  EXPECT_EQ(derivations(sparse), 3);
  sparse.sparse = jit::Sparse::kB;
  EXPECT_EQ(derivations(sparse), 1);
}

TEST_F(BandsTest, AnErrorIsToldWhenTheLaneHasEnded) {
  const Product product = SharedProduct(Problem());
  const Prepared prepared = PreparedOf(product.problem);
  auto hooks = std::make_shared<testing::Hooks>();
  int multiplied = 0, synchronized = 0;
  hooks->multiply = [&](const jit::Problem&, const jit::Plan&) {
    return ++multiplied == 2 ? absl::InternalError("half of it")
                             : absl::OkStatus();
  };
  hooks->synchronize = [&] {
    ++synchronized;
    return absl::OkStatus();
  };
  testing::FakeDevice device("fake", hooks, int64_t{256} << 20);
  const auto lane = device.CreateLane().value();
  Phases phases;
  const auto results =
      RunInBands(*lane, prepared, product, Cut(product), {}, phases);
  EXPECT_EQ(results.status().message(), "half of it");
  EXPECT_EQ(multiplied, 2);
  EXPECT_GT(synchronized, 0);
  // Who has gone is not multiplied for.
  RequestContext gone;
  gone.deadline = absl::InfinitePast();
  multiplied = synchronized = 0;
  EXPECT_FALSE(
      RunInBands(*lane, prepared, product, Cut(product), gone, phases).ok());
  EXPECT_EQ(multiplied, 0);
  EXPECT_GT(synchronized, 0) << "what all bands read was on its way";
}

class EngineBandsTest : public BandsTest {
 protected:
  EngineBandsTest() {
    hooks_->multiply = [this](const jit::Problem& problem, const jit::Plan&) {
      gate_.Pass();
      lines_.push_back(problem.d().lines());
      return lines_.size() == fails_at_ ? absl::UnavailableError("lost")
                                        : absl::OkStatus();
    };
  }
  ~EngineBandsTest() override { gate_.Open(); }

  testing::TestEngine& Start(absl::Duration hang_limit) {
    engine_ = std::make_unique<testing::TestEngine>(
        Engine::Options{.executor = {.lanes = 1, .hang_limit = hang_limit}},
        std::vector{hooks_}, int64_t{256} << 20);
    return *engine_;
  }

  testing::Gate gate_;
  std::vector<int64_t> lines_;  // Of what is multiplied.
  size_t fails_at_ = 0;
  std::shared_ptr<testing::Hooks> hooks_ = std::make_shared<testing::Hooks>();
  std::unique_ptr<testing::TestEngine> engine_;
};

TEST_F(EngineBandsTest, AProductToSharedMemoryGoesInBands) {
  const auto result =
      Start(absl::Hours(1)).Multiply(SharedProduct(Problem())).Wait();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(lines_, (std::vector<int64_t>{512, 512, 176}));
  EXPECT_EQ(result->d, nullptr);
  EXPECT_EQ(result->execution.splits, 1);
  EXPECT_EQ(result->execution.paths.a, Path::kShared);
  EXPECT_EQ(result->execution.paths.d, Path::kShared);
  const Phases& phases = result->execution.phases;
  EXPECT_GT(phases.upload, absl::ZeroDuration());
  EXPECT_GT(phases.execute, absl::ZeroDuration());
  EXPECT_GT(phases.download, absl::ZeroDuration());
  EXPECT_EQ(phases.kernels, phases.execute) << "one after the other here";
}

TEST_F(EngineBandsTest, ALostDeviceEndsTheProductAtItsBand) {
  fails_at_ = 2;
  const auto result =
      Start(absl::Hours(1)).Multiply(SharedProduct(Problem())).Wait();
  EXPECT_EQ(result.status().message(), "lost");
  EXPECT_EQ(lines_.size(), 2u);
}

// The bands that are left would still write what the client has back.
TEST_F(EngineBandsTest, WhileADeviceHangsThereIsNoAnswer) {
  gate_.Close();
  testing::TestEngine& engine = Start(absl::Milliseconds(20));
  auto answer = engine.Multiply(SharedProduct(Problem()));
  ASSERT_TRUE(
      testing::Eventually([&] { return !engine->device_state(0).ok(); }));
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_FALSE(answer.there());
  gate_.Open();
  EXPECT_TRUE(answer.Wait().ok()) << "it came to an end after all";
}

}  // namespace
}  // namespace gemmd::engine
