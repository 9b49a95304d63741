// The kernels that derive forms compile without spills: through NVRTC, without
// a GPU.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "jit/compile/compile_log.h"
#include "jit/compile/nvrtc_compiler.h"
#include "jit/source/instance.h"
#include "jit/source/prepare_instances.h"

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

TEST(PrepareTemplate, APlanNeedsThoseOfTheFormsThatItAsksFor) {
  const TemplateLibrary templates = TemplateLibrary::Embedded();
  const auto names = [&](const Plan& plan, DataType a, DataType b) {
    const auto instances =
        MakePrepareInstances(templates, {.a_type = a, .b_type = b}, plan);
    EXPECT_TRUE(instances.ok()) << instances.status();
    std::string all;
    for (const Instance& instance : *instances) all += instance.name + " ";
    return all;
  };
  Plan plan;
  EXPECT_EQ(names(plan, DataType::kBf16, DataType::kBf16), "");
  plan.b_form = Form::kTransposed;
  EXPECT_EQ(names(plan, DataType::kE4m3, DataType::kE5m2), "transpose_8 ");
  EXPECT_EQ(names(plan, DataType::kB1, DataType::kB1), "transpose_1 ");
  plan.a_form = plan.b_form = Form::kSplit;
  EXPECT_EQ(names(plan, DataType::kF32, DataType::kF32), "split split ");
}

}  // namespace
}  // namespace gemmd::jit
