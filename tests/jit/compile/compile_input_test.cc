#include "jit/compile/compile_input.h"

#include <gtest/gtest.h>

#include "jit/compile/compile_options.h"
#include "jit/plan/planner.h"
#include "jit/source/instance.h"
#include "jit/source/template_library.h"

namespace gemmd::jit {
namespace {

TEST(CompileInputTest, TakesWhatThisProgramCompiles) {
  const TemplateLibrary templates = TemplateLibrary::Embedded();
  const Plan plan = ChoosePlan({.m = 64,
                                .n = 64,
                                .k = 65536,
                                .a_type = DataType::kBf16,
                                .b_type = DataType::kBf16,
                                .c_type = DataType::kBf16,
                                .d_type = DataType::kBf16},
                               {});
  for (const auto& instance :
       {MakeInstance(templates, plan.family, plan.config),
        MakeRepitchInstance(templates)}) {
    ASSERT_TRUE(instance.ok()) << instance.status();
    for (const NvrtcVersion version : {NvrtcVersion{12, 0}, {13, 0}}) {
      EXPECT_EQ(CheckCompileInput(instance->source.text(),
                                  CompileOptions(*instance, version)),
                absl::OkStatus());
    }
  }
}

TEST(CompileInputTest, RefusesOptionsOfOthers) {
  for (const char* option :
       {"--time=/tmp/file", "--include-path=/", "-I/", "-include=/etc/passwd",
        "--pre-include=/etc/passwd", "--ptxas-options=-o/tmp/file",
        "--create-pch=/tmp/file", "--gpu-architecture=sm_90a ", "", "-time",
        "--std=c++17"}) {
    const absl::Status status = CheckCompileInput("", {"--std=c++20", option});
    EXPECT_TRUE(absl::IsInternal(status)) << option << ": " << status;
  }
}

TEST(CompileInputTest, RefusesSourcesThatOpenFiles) {
  for (const char* source : {
           "#include \"/etc/passwd\"",
           "#include </etc/passwd>",
           "int a;\n  #  include \"/etc/passwd\"",
           "#/* */ /* */include </etc/passwd>",
           "#/*/ */include </etc/passwd>",
           "#define X\n#include </etc/passwd>",
           "#\\\ninclude </etc/passwd>",
           "#in\\\nclude </etc/passwd>",
           "#in\\ \t\r\nclude </etc/passwd>",
           "%:include </etc/passwd>",
           "%\\\n:include </etc/passwd>",
           "?\?=include </etc/passwd>",
           "#in?\?/\nclude </etc/passwd>",
           "#include_next </etc/passwd>",
           "#import </etc/passwd>",
           "#embed </etc/passwd>",
           "#\\u0069nclude </etc/passwd>",
           "#define X include\n#if __has_include(</etc/passwd>)",
           "#pragma GCC dependency \"/etc/passwd\"",
       }) {
    EXPECT_TRUE(absl::IsInternal(CheckCompileInput(source, {}))) << source;
  }
}

TEST(CompileInputTest, TakesOtherDirectives) {
  EXPECT_EQ(
      CheckCompileInput("#define A(x) #x\n#pragma unroll\n# /* x */ if 0\n"
                        "#endif\nint included = '#';\n",
                        {}),
      absl::OkStatus());
}

}  // namespace
}  // namespace gemmd::jit
