// Products of which everything lies in one region of the host's memory, and the
// bands that they are cut into.
#ifndef GEMMD_TESTS_SERVICE_BANDS_FIXTURE_H_
#define GEMMD_TESTS_SERVICE_BANDS_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "jit/plan/planner.h"
#include "service/engine/bands.h"
#include "tests/service/fake_region.h"

namespace gemmd::testing {

inline constexpr int64_t kRegionBytes = int64_t{40} << 20;

class BandsFixture : public ::testing::Test {
 protected:
  // Lines of D and A have 4096 and 8 elements of two bytes: a band has 512.
  static jit::Problem Problem(int64_t lines = 1200) {
    jit::Problem problem;
    problem.m = lines;
    problem.n = 4096;
    problem.k = 8;
    problem.b_order = jit::Order::kColumnMajor;
    problem.invariant = true;  // Sums are not split.
    return problem;
  }
  // The same with columns and rows exchanged.
  static jit::Problem Exchanged() {
    jit::Problem problem = Problem();
    std::swap(problem.m, problem.n);
    problem.d_order = jit::Order::kColumnMajor;
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
  engine::Input Shared(const jit::MatrixLayout& layout, int64_t padding = 0) {
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
  engine::Product SharedProduct(const jit::Problem& problem,
                                int64_t padding = 0) {
    end_ = 0;
    engine::Product product = {.problem = problem,
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

  std::vector<engine::Band> Cut(const engine::Product& product) {
    return engine::CutIntoBands(
        product, jit::ChoosePlan(product.problem, device_), device_);
  }

  const jit::DeviceProperties device_;
  std::shared_ptr<FakeRegion> region_ =
      std::make_shared<FakeRegion>(kRegionBytes);
  int64_t end_ = 0;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_SERVICE_BANDS_FIXTURE_H_
