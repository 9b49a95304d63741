// Generated translation units: self-contained, and free of spills for the
// largest configs that the planner may choose.
#include "jit/source/instance.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "jit/plan/planner.h"
#include "jit/plan/tiling.h"

namespace gemmd::jit {
namespace {

Instance Make(const Family& family, const Config& config) {
  absl::StatusOr<Instance> instance =
      MakeInstance(TemplateLibrary::Embedded(), family, config);
  EXPECT_TRUE(instance.ok()) << instance.status();
  return *instance;
}

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) {
    ++count;
  }
  return count;
}

TEST(Instance, ExpandsEveryInclude) {
  const std::string source = Make({}, {}).source.text();
  EXPECT_EQ(Count(source, "#include"), 0);
  EXPECT_EQ(Count(source, "#pragma once"), 0);
  EXPECT_EQ(Count(source, "struct alignas(64) TensorMap"), 1);
  EXPECT_EQ(Count(source, "struct Config {"), 1);
}

TEST(Instance, DiffersByConfigAndOnlyByConfig) {
  Config other;
  other.tile_n = 136;
  EXPECT_EQ(Make({}, {}).source.text(), Make({}, {}).source.text());
  EXPECT_NE(Make({}, {}).source.text(), Make({}, other).source.text());
}

TEST(Instance, HoldsTheReductionOfASplitProduct) {
  Config split;
  split.schedule = Schedule::kCooperative;
  EXPECT_EQ(Count(Make({}, split).source.text(), kReduceSymbol), 0);
  split.split_k = true;
  EXPECT_EQ(Count(Make({}, split).source.text(), kReduceSymbol), 1);
}

TEST(KernelName, NamesEveryDifference) {
  const Family family = {
      .instruction = {DataType::kF16, DataType::kF16, DataType::kF32},
      .y_major = Major::kMn,
      .epilogue = {.output = DataType::kF32,
                   .store = Store::kTransposed,
                   .alpha = true,
                   .reads_c = true,
                   .c = DataType::kF32}};
  const Config config = {.tile_n = 200, .stages = 5};
  EXPECT_EQ(KernelName(family, config), "gemm_f16_f32_km_128x200_s5_pp2_t_a_c");
}

TEST(TemplateLibrary, DirectoryOverridesEmbedded) {
  namespace fs = std::filesystem;
  const fs::path directory = fs::path(testing::TempDir()) / "templates";
  fs::create_directories(directory / "kernels");
  std::ofstream(directory / "kernels/one.h") << "#pragma once\nint one;\n";
  const absl::StatusOr<TemplateLibrary> library =
      TemplateLibrary::FromDirectory(directory.string());
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_EQ(*library->Expand("#include \"kernels/one.h\"\n"
                             "#include \"kernels/one.h\"\nint two;\n"),
            "int one;\nint two;\n");
  EXPECT_NE(library->Digest(), TemplateLibrary::Embedded().Digest());
  const absl::Status missing =
      library->Expand("#include \"kernels/gemm.cu\"\n").status();
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_NE(missing.message().find("kernels/gemm.cu"), std::string::npos);
}

// Each level of a chain is a call.
TEST(TemplateLibrary, RefusesAChainOfIncludesWithoutEnd) {
  namespace fs = std::filesystem;
  const fs::path directory = fs::path(testing::TempDir()) / "chain";
  fs::create_directories(directory);
  for (int i = 0; i < 200; ++i) {
    std::ofstream(directory / ("link" + std::to_string(i) + ".h"))
        << "#include \"link" << i + 1 << ".h\"\n";
  }
  const auto library = TemplateLibrary::FromDirectory(directory.string());
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_TRUE(absl::IsFailedPrecondition(
      library->Expand("#include \"link0.h\"\n").status()));
}

TEST(TemplateLibrary, RefusesADirectoryWithoutTemplates) {
  const absl::Status status =
      TemplateLibrary::FromDirectory("/nonexistent").status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
}

}  // namespace
}  // namespace gemmd::jit
