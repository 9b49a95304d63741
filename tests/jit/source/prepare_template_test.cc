// The kernels that derive forms compile without spills: through NVRTC, without
// a GPU.
#include <gtest/gtest.h>

#include <memory>

#include "absl/time/clock.h"
#include "jit/compile/compile_log.h"
#include "jit/compile/nvrtc_compiler.h"
#include "jit/source/instance.h"

namespace gemmd::jit {
namespace {

struct Case {
  Form form;
  DataType type;
};

TEST(PrepareTemplate, EveryFormCompilesWithoutSpills) {
  const auto compiler = CreateNvrtcCompiler({.nvrtc_path = GEMMD_TEST_NVRTC});
  ASSERT_TRUE(compiler.ok()) << compiler.status();
  for (const Case& c : {Case{Form::kTransposed, DataType::kB1},
                        Case{Form::kTransposed, DataType::kE4m3},
                        Case{Form::kTransposed, DataType::kF32},
                        Case{Form::kSplit, DataType::kF32}}) {
    const absl::StatusOr<Instance> instance =
        MakePrepareInstance(TemplateLibrary::Embedded(), c.form, c.type);
    ASSERT_TRUE(instance.ok()) << instance.status();
    const absl::StatusOr<CompileOutput> output =
        (*compiler)->Compile(*instance, absl::Now() + absl::Minutes(5));
    ASSERT_TRUE(output.ok()) << instance->name << ": " << output.status();
    const absl::StatusOr<KernelResources> resources =
        ReadCompileLog(output->log);
    EXPECT_TRUE(resources.ok()) << instance->name << ": " << resources.status();
  }
}

// One instance for all types of a size: the cache holds it once.
TEST(PrepareTemplate, TypesOfOneSizeShareAnInstance) {
  const TemplateLibrary templates = TemplateLibrary::Embedded();
  const auto text = [&](DataType type) {
    return MakePrepareInstance(templates, Form::kTransposed, type)
        ->source.text();
  };
  EXPECT_EQ(text(DataType::kS8), text(DataType::kE5m2));
  EXPECT_NE(text(DataType::kS8), text(DataType::kF32));
}

}  // namespace
}  // namespace gemmd::jit
