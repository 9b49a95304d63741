#include "service/host/hopper/hopper_sums.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>

#include "jit/base/for_each.h"
#include "jit/plan/launch_arithmetic.h"
#include "service/host/hopper/add.h"
#include "service/host/non_finite.h"
#include "service/host/parallel.h"

namespace gemmd::host {
namespace {

using jit::DataType;
using jit::Problem;

// Stages that are packed at once: 1 KiB of k.
constexpr int64_t kStagesAtOnce = 8;
// Rows that one thread takes at a time.
constexpr int64_t kRowsAtOnce = 64;
// The tensor core's NaN: 0x7fffffff as f32.
constexpr double kNan = std::bit_cast<double>(0x7fffffffe0000000);

// Of an operand of the instruction's type, or one that is widened to it.
FactorReading ReadingOf(const Problem& problem,
                        const jit::MatrixLayout& operand,
                        const jit::Plan& plan) {
  const bool takes_ones = TakesOnes(problem, operand);
  if (plan.family.widening) {
    return {.reading = Reading::kUnscaled,
            .least = LeastExponent(plan.family.instruction.x)};
  }
  if (operand.type != DataType::kF32) {
    return {.takes_ones = takes_ones, .least = LeastExponent(operand.type)};
  }
  switch (problem.precision) {
    case jit::Precision::kTf32:
      return {Reading::kNearestTf32, false, takes_ones, kLeastF32};
    case jit::Precision::kFast:
      return {Reading::kTruncatedTf32, false, takes_ones, kLeastF32};
    case jit::Precision::kDefault:
      break;
  }
  return {.splits = true, .least = kLeastF32};
}

// Of a 128-byte line of factors.
int64_t DepthOf(const jit::Plan& plan) {
  return kSwizzleBytes * 8 / jit::BitsOf(plan.family.instruction.x);
}

int PartsOf(const jit::Plan& plan) {
  if (plan.family.sum != jit::Summation::kGroupScaled) return 1;
  return plan.family.widening->stage_groups;
}

int PlaneOf(uint32_t planes, int64_t pass) { return planes >> 2 * pass & 3; }

}  // namespace

bool HopperSums::Knows(const jit::Plan& plan) {
  return AdderOf(plan.family.instruction).has_value();
}

HopperSums::HopperSums(const Problem& problem, const jit::Plan& plan,
                       const GemmOperands& operands)
    : problem_(problem),
      plan_(plan),
      operands_(operands),
      adder_(AdderOf(plan.family.instruction).value()),
      stage_parts_(PartsOf(plan)),
      part_depth_(DepthOf(plan) / stage_parts_),
      promotes_(plan.family.sum != jit::Summation::kDirect),
      scales_(promotes_ && plan.family.sum != jit::Summation::kPromoted),
      weights_(problem.weights_are_b() ? problem.b() : problem.a()),
      a_scale_(problem.a_scale()),
      b_scale_(problem.b_scale()),
      a_(problem.a(), ReadingOf(problem, problem.a(), plan), part_depth_),
      b_(problem.b(), ReadingOf(problem, problem.b(), plan), part_depth_) {}

Stage HopperSums::StageAt(int64_t unit, int64_t part) const {
  const auto [pass, stage] = PassStageOf(static_cast<int>(unit),
                                         plan_.passes - 1, plan_.stages);
  const int64_t first = (int64_t{stage} * stage_parts_ + part) * part_depth_;
  const int x = PlaneOf(plan_.x_planes, pass);
  const int y = PlaneOf(plan_.y_planes, pass);
  const bool is_last = unit == int64_t{plan_.stages} * plan_.passes - 1;
  return {{first, std::clamp<int64_t>(problem_.k - first, 0, part_depth_)},
          plan_.exchanged ? y : x,
          plan_.exchanged ? x : y,
          is_last || (unit + 1) % jit::PromotedStages(plan_) == 0};
}

std::vector<double>& HopperSums::Of(int64_t batch, const Block& block) {
  sums_.assign(block.rows.count * block.columns.count, 0.0);
  for (int64_t part = 0; part < plan_.splits; ++part) {
    SumPart(batch, block, part);
    AddPart(block);
  }
  return sums_;
}

void HopperSums::SumPart(int64_t batch, const Block& block, int64_t part) {
  const int64_t rows = block.rows.count;
  pitch_ = (block.columns.count + kPanel - 1) / kPanel * kPanel;
  partial_.Resize(rows * pitch_);
  std::fill_n(partial_.data(), rows * pitch_, 0.0);
  promoted_.Resize(promotes_ ? rows * pitch_ : 0);
  if (promotes_) std::fill_n(promoted_.data(), rows * pitch_, 0.0f);
  const int64_t units = int64_t{plan_.stages} * plan_.passes;
  const int64_t at_once =
      std::min(kStagesAtOnce, (units + plan_.splits - 1) / plan_.splits) *
      stage_parts_;
  a_.Resize(at_once, rows);
  b_.Resize(at_once, pitch_);

  const char* const a = Matrix(problem_.a(), operands_.a, batch);
  const char* const b = Matrix(problem_.b(), operands_.b, batch);
  scaled_ = problem_.weights_are_b() ? b : a;
  std::vector<Stage> stages;
  for (int64_t unit = part; unit < units; unit += plan_.splits) {
    for (int64_t i = 0; i < stage_parts_; ++i) {
      stages.push_back(StageAt(unit, i));
    }
    if (std::ssize(stages) < at_once && unit + plan_.splits < units) continue;
    AddStages(a, b, block, stages);
    stages.clear();
  }
}

void HopperSums::AddStages(const char* a, const char* b, const Block& block,
                           const std::vector<Stage>& stages) {
  const auto& [rows, columns] = block;
  const int threads =
      ThreadsFor(rows.count * columns.count * std::ssize(stages) * part_depth_);
  jit::ForEach(threads, pitch_ / kPanel, [&](int64_t panel) {
    const int64_t first = panel * kPanel;
    const Range some = {columns.first + first,
                        std::min<int64_t>(kPanel, columns.count - first)};
    for (int64_t s = 0; s < std::ssize(stages); ++s) {
      b_.PackPanel(b, some, stages[s].steps, stages[s].b_plane, s, panel);
    }
  });
  jit::ForEach(threads, (rows.count + kRowsAtOnce - 1) / kRowsAtOnce,
               [&](int64_t slice) {
                 const int64_t first = slice * kRowsAtOnce;
                 const int64_t count =
                     std::min(kRowsAtOnce, rows.count - first);
                 for (int64_t s = 0; s < std::ssize(stages); ++s) {
                   a_.PackRows(a, {rows.first + first, count}, stages[s].steps,
                               stages[s].a_plane, s, first);
                 }
                 AddRows(block, stages, {first, count});
               });
}

void HopperSums::AddRows(const Block& block, const std::vector<Stage>& stages,
                         Range rows) {
  for (int64_t panel = 0; panel < pitch_ / kPanel; ++panel) {
    const PanelSums sums = {
        partial_.data() + rows.first * pitch_ + panel * kPanel, rows.count,
        pitch_};
    for (int64_t s = 0; s < std::ssize(stages); ++s) {
      // Those on nothing but zeros change nothing.
      const int64_t instructions =
          (stages[s].steps.count + adder_.products - 1) / adder_.products;
      Add(adder_, a_.Rows(s, rows.first), b_.Panel(s, panel),
          static_cast<int>(instructions), sums);
      if (!promotes_ || !stages[s].ends_sums) continue;
      const int64_t column = panel * kPanel;
      Promote(sums,
              {{block.rows.first + rows.first, rows.count},
               {block.columns.first + column,
                std::min<int64_t>(kPanel, block.columns.count - column)}},
              stages[s]);
    }
  }
}

void HopperSums::Promote(const PanelSums& sums, const Block& block,
                         const Stage& stage) {
  float* to = promoted_.data() + (sums.values - partial_.data());
  double* from = sums.values;
  std::array<float, kPanel> of_columns;
  if (scales_) {
    for (int64_t j = 0; j < block.columns.count; ++j) {
      of_columns[j] = ColumnScale(block.columns.first + j, stage);
    }
  }
  for (int64_t i = 0; i < sums.rows; ++i, from += pitch_, to += pitch_) {
    const float of_row = scales_ ? RowScale(block.rows.first + i, stage) : 1.0f;
    for (int64_t j = 0; j < block.columns.count; ++j) {
      const auto held = static_cast<float>(from[j]);
      // A scaled sum is added with one rounding.
      to[j] = scales_ ? std::fma(of_row * of_columns[j], held, to[j])
                      : to[j] + held;
      from[j] = 0;
    }
  }
}

float HopperSums::RowScale(int64_t row, const Stage& stage) const {
  if (plan_.family.sum == jit::Summation::kGroupScaled) {
    return problem_.weights_are_b() ? 1 : GroupScale(row, stage);
  }
  return F32At(a_scale_, operands_.a_scale, row,
               stage.steps.first / jit::kScaleBlock);
}

float HopperSums::ColumnScale(int64_t column, const Stage& stage) const {
  if (plan_.family.sum == jit::Summation::kGroupScaled) {
    return problem_.weights_are_b() ? GroupScale(column, stage) : 1;
  }
  return F32At(b_scale_, operands_.b_scale,
               stage.steps.first / jit::kScaleBlock, column / jit::kScaleBlock);
}

float HopperSums::GroupScale(int64_t line, const Stage& stage) const {
  if (stage.steps.count == 0) return 0;  // There is no such group.
  return GroupOf(weights_, Line(weights_, scaled_, line), stage.steps.first)
      .scale;
}

void HopperSums::AddPart(const Block& block) {
  for (int64_t i = 0; i < block.rows.count; ++i) {
    for (int64_t j = 0; j < block.columns.count; ++j) {
      const int64_t from = i * pitch_ + j;
      double& sum = sums_[i * block.columns.count + j];
      const double part =
          promotes_ ? promoted_.data()[from] : partial_.data()[from];
      // Of one part, and of f16 sums, this is what the tensor core holds.
      sum = static_cast<float>(sum) + static_cast<float>(part);
      if (std::isnan(sum)) sum = kNan;
    }
  }
}

}  // namespace gemmd::host
