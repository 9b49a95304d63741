// The GEMM template compiles without spills or serialised wgmma for the
// extremes of what the planner may choose: through NVRTC, without a GPU.
#include <gtest/gtest.h>

#include <string>

#include "absl/time/clock.h"
#include "jit/base/status.h"
#include "jit/compile/compile_log.h"
#include "jit/plan/planner.h"
#include "jit/plan/tiling.h"
#include "jit/source/instance.h"
#include "tests/jit/source/kernel_test.h"

namespace gemmd::jit {
namespace {

using enum DataType;

class GemmTemplateTest : public KernelTest {
 protected:
  absl::StatusOr<KernelResources> Resources(const Instance& instance) {
    ASSIGN_OR_RETURN(
        const CompileOutput output,
        compiler_->Compile(instance, absl::Now() + absl::Minutes(5)));
    return ReadCompileLog(output.log);
  }
};

Family Of(Instruction instruction, DataType output) {
  return {.instruction = instruction,
          .epilogue = {.output = output, .c = output}};
}

// The most sums with the most that an epilogue keeps beside them. Plans have
// transposed tiles of f32 beside C of up to 200 columns: 208 would spill.
TEST_F(GemmTemplateTest, LargestTilesDoNotSpill) {
  for (const DataType output : {kBf16, kF32}) {
    for (const Store store : {Store::kNormal, Store::kTransposed}) {
      Family family = Of({}, output);
      family.epilogue.store = store;
      family.epilogue.alpha = family.epilogue.reads_c = true;
      const bool fewer = output == kF32 && store == Store::kTransposed;
      ExpectGood(family, {.tile_n = fewer ? 200 : 208, .stages = 3});
    }
  }
}

TEST_F(GemmTemplateTest, EveryLayoutCompiles) {
  for (const Major x : {Major::kK, Major::kMn}) {
    for (const Major y : {Major::kK, Major::kMn}) {
      Family family = Of({kF16, kF16, kF32}, kF16);
      family.x_major = x;
      family.y_major = y;
      ExpectGood(
          family,
          {.tile_n = 256, .stages = 3, .schedule = Schedule::kCooperative});
    }
  }
}

// The best plan that needs no other kernel of every dense form, and the
// largest where that is another.
TEST_F(GemmTemplateTest, EveryFormCompiles) {
  for (const Instruction& instruction : Instructions()) {
    const Problem problem = {.m = 4096,
                             .n = 4096,
                             .k = 4096,
                             .a_type = instruction.x,
                             .b_type = instruction.y,
                             .c_type = instruction.accumulator,
                             .d_type = instruction.accumulator,
                             .b_order = Order::kColumnMajor,
                             .accumulator = instruction.accumulator,
                             .precision = instruction.x == kF32
                                              ? Precision::kTf32
                                              : Precision::kDefault,
                             .clamps = instruction.clamps};
    const Plan plan = ChoosePlan(problem, {});
    ExpectGood(plan);
  }
}

TEST_F(GemmTemplateTest, PromotedSumsOfTheLargestTilesDoNotSpill) {
  Family family = Of({kE4m3, kE5m2, kF32}, kBf16);
  family.sum = Summation::kPromoted;
  family.epilogue.alpha = true;
  ExpectGood(family, {.tile_n = 208,
                      .stages = 4,
                      .schedule = Schedule::kCooperative,
                      .groups_in_flight = 0});
}

TEST_F(GemmTemplateTest, EightBitOutputsCompile) {
  for (const Store store : {Store::kNormal, Store::kTransposed}) {
    for (const DataType output : {kE4m3, kE5m2}) {
      Family family = Of({kE4m3, kE4m3, kF32}, output);
      family.epilogue.store = store;
      family.epilogue.reads_c = true;
      ExpectGood(family, {.tile_n = 128, .stages = 4});
    }
    for (const DataType output : {kS8, kU8}) {
      Family family = Of({kS8, kU8, kS32}, output);
      family.epilogue.store = store;
      family.epilogue.reads_c = true;
      ExpectGood(family, {.tile_n = 128, .stages = 4});
    }
  }
}

TEST_F(GemmTemplateTest, SmallestTilesCompile) {
  for (const Store store : {Store::kNormal, Store::kTransposed}) {
    for (const DataType output : {kF16, kF32}) {
      Family family = Of({}, output);
      family.epilogue.store = store;
      family.epilogue.reads_c = true;
      ExpectGood(family, {.tile_m = 64,
                          .tile_n = 8,
                          .consumers = 1,
                          .schedule = Schedule::kCooperative});
    }
  }
}

// The reduction applies the epilogue, with C of any type.
TEST_F(GemmTemplateTest, SplitProductsCompile) {
  Family family = Of({}, kBf16);
  family.epilogue.reads_c = true;
  family.epilogue.c = kF32;
  ExpectGood(family, {.schedule = Schedule::kCooperative, .split_k = true});
  family = Of({kS8, kS8, kS32}, kS32);
  family.epilogue.alpha = family.epilogue.reads_c = true;
  ExpectGood(family, {.schedule = Schedule::kCooperative, .split_k = true});
}

TEST_F(GemmTemplateTest, RepitchCompiles) {
  const absl::StatusOr<Instance> repitch =
      MakeRepitchInstance(TemplateLibrary::Embedded());
  ASSERT_TRUE(repitch.ok()) << repitch.status();
  EXPECT_TRUE(Resources(*repitch).ok()) << Resources(*repitch).status();
}

// A kernel refuses to compile when host and device disagree on its size.
TEST_F(GemmTemplateTest, TooLittleSharedMemoryIsAnError) {
  absl::StatusOr<Instance> instance =
      MakeInstance(TemplateLibrary::Embedded(), {}, {});
  ASSERT_TRUE(instance.ok());
  const std::string member = "kSharedMemoryBytes = ";
  std::string source = instance->source.text();
  const size_t at = source.find(member);
  ASSERT_NE(at, std::string::npos);
  source.insert(at + member.size(), "1000; // ");
  instance->source = source;
  const absl::Status status = Resources(*instance).status();
  EXPECT_NE(status.message().find("planner reserved too little"),
            std::string::npos)
      << status;
}

}  // namespace
}  // namespace gemmd::jit
