// The GEMM template compiles without spills or serialised wgmma for the
// extremes of what the planner may choose: through NVRTC, without a GPU.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "jit/base/status.h"
#include "jit/compile/compile_log.h"
#include "jit/compile/nvrtc_compiler.h"
#include "jit/plan/planner.h"
#include "jit/source/instance.h"

namespace gemmd::jit {
namespace {

class GemmTemplateTest : public testing::Test {
 protected:
  void SetUp() override {
    auto compiler = CreateNvrtcCompiler({.nvrtc_path = GEMMD_TEST_NVRTC});
    ASSERT_TRUE(compiler.ok()) << compiler.status();
    compiler_ = *std::move(compiler);
  }

  absl::StatusOr<KernelResources> Resources(const Instance& instance) {
    ASSIGN_OR_RETURN(
        const CompileOutput output,
        compiler_->Compile(instance, absl::Now() + absl::Minutes(5)));
    return ReadCompileLog(output.log);
  }

  void ExpectCompiles(const Family& family, const Config& config) {
    const absl::StatusOr<Instance> instance =
        MakeInstance(TemplateLibrary::Embedded(), family, config);
    ASSERT_TRUE(instance.ok()) << instance.status();
    const absl::StatusOr<KernelResources> resources = Resources(*instance);
    EXPECT_TRUE(resources.ok()) << instance->name << ": " << resources.status();
  }

  std::unique_ptr<Compiler> compiler_;
};

// The most accumulators with the most that an epilogue keeps beside them.
TEST_F(GemmTemplateTest, LargestTilesDoNotSpill) {
  for (const DataType output : {DataType::kBf16, DataType::kF32}) {
    for (const Store store : {Store::kNormal, Store::kTransposed}) {
      for (const bool reads_c : {false, true}) {
        const Family family = {
            .output = output, .store = store, .reads_c = reads_c};
        ExpectCompiles(family, {.tile_n = 208, .stages = 3});
        ExpectCompiles(family, {.tile_n = 200, .stages = 3});
      }
    }
  }
}

TEST_F(GemmTemplateTest, EveryLayoutCompiles) {
  for (const Major x : {Major::kK, Major::kMn}) {
    for (const Major y : {Major::kK, Major::kMn}) {
      const Family family = {
          .input = DataType::kF16, .x_major = x, .y_major = y};
      ExpectCompiles(
          family,
          {.tile_n = 256, .stages = 3, .schedule = Schedule::kCooperative});
    }
  }
}

TEST_F(GemmTemplateTest, SmallestTilesCompile) {
  for (const Store store : {Store::kNormal, Store::kTransposed}) {
    for (const DataType output : {DataType::kF16, DataType::kF32}) {
      const Family family = {.output = output, .store = store, .reads_c = true};
      ExpectCompiles(family, {.tile_m = 64,
                              .tile_n = 8,
                              .consumers = 1,
                              .schedule = Schedule::kCooperative});
    }
  }
}

TEST_F(GemmTemplateTest, SplitProductsCompile) {
  const Family family = {.reads_c = true};
  ExpectCompiles(family, {.schedule = Schedule::kCooperative, .split_k = true});
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
