// The sums of products of one block of A B, bit for bit as a Hopper GPU makes
// them with a plan: by the tensor core's arithmetic (adder.h), in the plan's
// parts of k, which are added as the reduction does.
//
// Thread-compatible; its buffers are used again for the next block.
#ifndef GEMMD_SERVICE_HOST_HOPPER_HOPPER_SUMS_H_
#define GEMMD_SERVICE_HOST_HOPPER_HOPPER_SUMS_H_

#include <cstdint>
#include <vector>

#include "jit/plan/plan.h"
#include "jit/problem/problem.h"
#include "service/host/block.h"
#include "service/host/gemm.h"
#include "service/host/hopper/adder.h"
#include "service/host/hopper/aligned.h"
#include "service/host/hopper/panels.h"

namespace gemmd::host {

class HopperSums {
 public:
  // Whether the arithmetic of the plan's sums is known.
  static bool Knows(const jit::Plan& plan);

  // All outlive the sums; the plan is one of the problem, and known.
  HopperSums(const jit::Problem& problem, const jit::Plan& plan,
             const GemmOperands& operands);

  // Sums of `block` of product `batch`, row-major and tight: values of the
  // accumulator's type, of a split plan f32, the caller's until the next call.
  // NaN is the GPU's. The problem reads_ab().
  std::vector<double>& Of(int64_t batch, const Block& block);

 private:
  // Part `part` of stage `unit` of all passes over k. It may lie behind k.
  Stage StageAt(int64_t unit, int64_t part) const;
  // Sums of part `part` of k, in partial_.
  void SumPart(int64_t batch, const Block& block, int64_t part);
  // Packs stages of A and B and adds their products, on several threads.
  void AddStages(const char* a, const char* b, const Block& block,
                 const std::vector<Stage>& stages);
  // Adds packed stages to the sums of some rows of the block.
  void AddRows(const Block& block, const std::vector<Stage>& stages,
               Range rows);
  // Moves what the tensor core holds to the promoted sums. `block` is that of
  // the panel's sums in D.
  void Promote(const PanelSums& sums, const Block& block, const Stage& stage);
  // The factors of the sums of `stage` in one row and in one column of D:
  // scales by block, or the scale of the weights' group and one.
  float RowScale(int64_t row, const Stage& stage) const;
  float ColumnScale(int64_t column, const Stage& stage) const;
  // That of one line of the weights.
  float GroupScale(int64_t line, const Stage& stage) const;
  // The part's sums, finished, onto those of the parts before it.
  void AddPart(const Block& block);

  const jit::Problem& problem_;
  const jit::Plan& plan_;
  const GemmOperands& operands_;
  const Adder adder_;
  const int64_t stage_parts_;  // That are promoted apart.
  const int64_t part_depth_;   // Steps of k in one.
  const bool promotes_;
  const bool scales_;                // What it promotes, by block or by group.
  const jit::MatrixLayout weights_;  // Where it does by group.
  const jit::MatrixLayout a_scale_;  // Where it does by block.
  const jit::MatrixLayout b_scale_;
  Panels a_;
  Panels b_;
  const char* scaled_ = nullptr;  // The matrix of weights that is multiplied.
  int64_t pitch_ = 0;             // Of the buffers below, in elements.
  Aligned<double> partial_;       // What the tensor core holds.
  Aligned<float> promoted_;       // What it held, where sums are promoted.
  std::vector<double> sums_;
};

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_HOPPER_HOPPER_SUMS_H_
