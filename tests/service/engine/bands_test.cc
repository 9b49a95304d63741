// Products that are cut into bands of lines: which are, where, and that the
// result is that of the whole.
#include "service/engine/bands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "jit/plan/form.h"
#include "service/host/host_device.h"
#include "tests/service/deriving_device.h"
#include "tests/service/fake_cache.h"
#include "tests/service/fake_device.h"
#include "tests/service/fake_region.h"
#include "tests/service/gate.h"
#include "tests/service/test_engine.h"

namespace gemmd::engine {
namespace {

using jit::DataType;
using jit::Extent;
using jit::Order;
using testing::FakeRegion;

constexpr int64_t kRegionBytes = int64_t{40} << 20;

class BandsTest : public ::testing::Test {
 protected:
  // Lines of D and A have 4096 and 8 elements of two bytes: a band has 512.
  static jit::Problem Problem(int64_t lines = 1200) {
    jit::Problem problem;
    problem.m = lines;
    problem.n = 4096;
    problem.k = 8;
    problem.b_order = Order::kColumnMajor;
    problem.invariant = true;  // Sums are not split.
    return problem;
  }
  // The same with columns and rows exchanged.
  static jit::Problem Exchanged() {
    jit::Problem problem = Problem();
    std::swap(problem.m, problem.n);
    problem.d_order = Order::kColumnMajor;
    return problem;
  }

  // In `region_`, behind what was placed before; lines `padding` bytes longer
  // than they must be.
  int64_t Place(const jit::MatrixLayout& layout, int64_t padding) {
    end_ = (end_ + 255) / 256 * 256;
    const int64_t at = end_;
    end_ += layout.lines() * (layout.width_bytes() + padding);
    EXPECT_LE(end_, kRegionBytes);
    return at;
  }
  Input Shared(const jit::MatrixLayout& layout, int64_t padding = 0) {
    if (layout.empty()) return {};
    const int64_t at = Place(layout, padding);
    const int64_t pitch = layout.width_bytes() + padding;
    const absl::Span<char> bytes = region_->bytes().subspan(
        at, (layout.lines() - 1) * pitch + layout.width_bytes());
    for (size_t i = 0; i < bytes.size(); i += 2) {
      // Of both types: small, and many of them.
      bytes[i] = static_cast<char>(i * 37 >> 3);
      if (i + 1 < bytes.size()) bytes[i + 1] = i % 3 == 0 ? 0x3f : 0x40;
    }
    return {.pieces = {bytes},
            .pitch_bytes = pitch,
            .matrix_bytes = layout.lines() * pitch,
            .region = region_};
  }

  // All of it in the region.
  Product SharedProduct(const jit::Problem& problem, int64_t padding = 0) {
    end_ = 0;
    Product product = {.problem = problem,
                       .a = Shared(problem.a(), padding),
                       .b = Shared(problem.b(), padding)};
    if (problem.reads_c()) product.c = Shared(problem.c(), padding);
    product.bias = Shared(problem.bias());
    product.a_scale = Shared(problem.a_scale());
    product.b_scale = Shared(problem.b_scale());
    product.d_scale = Shared(problem.d_scale());
    product.d.pitch_bytes = problem.d().width_bytes() + padding;
    product.d.place = {region_, Place(problem.d(), padding)};
    if (problem.epilogue.writes_auxiliary) {
      product.auxiliary.pitch_bytes = product.d.pitch_bytes;
      product.auxiliary.place = {region_, Place(problem.d(), padding)};
    }
    std::ranges::fill(region_->bytes().subspan(product.d.place.offset), '.');
    return product;
  }

  Prepared PreparedOf(const jit::Problem& problem) {
    Prepared prepared = {.plan = jit::ChoosePlan(problem, device_)};
    jit::CompiledKernel compiled;
    compiled.cubin = "cubin";
    auto kernel = std::make_shared<LoadedKernel>();
    kernel->kernel = host_->Load(compiled, prepared.plan).value();
    prepared.kernel = std::move(kernel);
    return prepared;
  }

  std::vector<Band> Cut(const Product& product) {
    return CutIntoBands(product, jit::ChoosePlan(product.problem, device_),
                        device_);
  }
  std::vector<int64_t> Lines(const Product& product) {
    std::vector<int64_t> lines;
    for (const Band& band : Cut(product)) {
      lines.push_back(band.product.problem.d().lines());
    }
    return lines;
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

  const jit::DeviceProperties device_;
  const std::unique_ptr<device::Device> host_ =
      host::CreateHostDevice({.memory_bytes = int64_t{256} << 20});
  const std::unique_ptr<device::Lane> lane_ = host_->CreateLane().value();
  std::shared_ptr<FakeRegion> region_ =
      std::make_shared<FakeRegion>(kRegionBytes);
  int64_t end_ = 0;
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
  ASSERT_TRUE(UploadBatch(*lane_, product.b, *matrix).ok());
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
  testing::FakeCache cache;
  const auto templates = jit::TemplateLibrary::Embedded();
  Forms forms(deriving, 0, cache, templates, nullptr);
  const auto lane = deriving.CreateLane().value();
  const auto derivations = [&](const jit::Problem& problem) {
    const Product product = SharedProduct(problem);
    Prepared prepared = PreparedOf(problem);
    prepared.forms = &forms;
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
  multiplied = 0;
  EXPECT_FALSE(
      RunInBands(*lane, prepared, product, Cut(product), gone, phases).ok());
  EXPECT_EQ(multiplied, 0);
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
