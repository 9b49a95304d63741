// Logs as NVRTC 13.0 wrote them.
#include "jit/compile/compile_log.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {
namespace {

absl::Status StatusOf(absl::string_view log) {
  return ReadCompileLog(log).status();
}

TEST(CompileLogTest, ReadsResources) {
  const auto resources = ReadCompileLog(FakeLog(168, 1024));
  ASSERT_TRUE(resources.ok()) << resources.status();
  EXPECT_EQ(resources->registers, 168);
  EXPECT_EQ(resources->static_shared_memory_bytes, 1024);
  EXPECT_EQ(resources->spill_bytes, 0);
}

TEST(CompileLogTest, ReadsThoseOfTheKernelAmongOthers) {
  const auto resources = ReadCompileLog(absl::StrCat(
      "ptxas info    : Compiling entry function 'gemmd_reduce' for 'sm_90a'\n"
      "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes "
      "spill loads\n"
      "ptxas info    : Used 20 registers\n",
      FakeLog(168, 0),
      "ptxas info    : Compiling entry function 'gemmd_kernel_2' for "
      "'sm_90a'\n"
      "ptxas info    : Used 30 registers\n"));
  ASSERT_TRUE(resources.ok()) << resources.status();
  EXPECT_EQ(resources->registers, 168);
}

TEST(CompileLogTest, SpillsOfAnyFunctionAreErrors) {
  const absl::Status status = StatusOf(absl::StrCat(
      FakeLog(),
      "ptxas         .     8368 bytes stack frame, 18044 bytes spill stores, "
      "22920 bytes spill loads\n"
      "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes "
      "spill loads\n"));
  EXPECT_TRUE(absl::IsInternal(status));
  EXPECT_TRUE(absl::StrContains(status.message(), "40964 bytes")) << status;
}

TEST(CompileLogTest, ComplaintsAboutWarpgroupsAreErrors) {
  for (const char* complaint :
       {"ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async "
        "instructions are serialized due to insufficient register resources "
        "for the wgmma pipeline in the function 'gemmd_kernel'",
        "ptxas info    : (C7519) warpgroup.arrive is injected in around line "
        "42 by compiler to allow use of registers in GMMA in function "
        "'gemmd_kernel'",
        "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' "
        "ignored to maintain minimum register requirements."}) {
    const absl::Status status =
        StatusOf(absl::StrCat(complaint, "\n", FakeLog()));
    EXPECT_TRUE(absl::IsInternal(status));
    EXPECT_TRUE(absl::StrContains(status.message(), complaint)) << status;
  }
}

TEST(CompileLogTest, ALogThatDoesNotTellIsAnError) {
  EXPECT_TRUE(absl::IsInternal(StatusOf("")));
  EXPECT_TRUE(absl::IsInternal(StatusOf("ptxas info    : 0 bytes gmem\n")));
  EXPECT_TRUE(absl::IsInternal(
      StatusOf("ptxas info    : Compiling entry function 'gemmd_kernel' for "
               "'sm_90a'\nptxas info    : Used 10 registers\n")));
}

}  // namespace
}  // namespace gemmd::jit
