#include "jit/problem/instruction.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace gemmd::jit {
namespace {

TEST(InstructionTest,
     TheIsaHasTwentyOneDenseAndTwentySparseFormsOfDifferentNames) {
  std::set<std::string> names;
  for (const Instruction& instruction : Instructions()) {
    names.insert(Name(instruction));
  }
  EXPECT_EQ(names.size(), 41);
  EXPECT_TRUE(names.contains("f16-f16"));
  EXPECT_TRUE(names.contains("e5m2-e4m3"));
  EXPECT_TRUE(names.contains("u8-s8-clamp"));
  EXPECT_TRUE(names.contains("sparse-bf16"));
  EXPECT_TRUE(names.contains("sparse-tf32"));
  EXPECT_TRUE(names.contains("sparse-u8-s8-clamp"));
  EXPECT_FALSE(names.contains("sparse-b1"));
}

TEST(InstructionTest, ASparseOneTakesTwiceTheK) {
  for (Instruction instruction : Instructions()) {
    if (!instruction.sparse) continue;
    const int k = KOf(instruction);
    instruction.sparse = false;
    EXPECT_EQ(k, 2 * KOf(instruction)) << Name(instruction);
  }
}

TEST(InstructionTest, OneInstructionTakesThirtyTwoBytesOfK) {
  EXPECT_EQ(KOf({DataType::kBf16, DataType::kBf16, DataType::kF32}), 16);
  EXPECT_EQ(KOf({DataType::kF32, DataType::kF32, DataType::kF32}), 8);
  EXPECT_EQ(KOf({DataType::kS8, DataType::kU8, DataType::kS32}), 32);
  EXPECT_EQ(KOf({DataType::kB1, DataType::kB1, DataType::kS32}), 256);
}

TEST(InstructionTest, IntegersHaveFewerWidths) {
  const Instruction bf16 = {DataType::kBf16, DataType::kBf16, DataType::kF32};
  const Instruction s8 = {DataType::kS8, DataType::kS8, DataType::kS32};
  EXPECT_TRUE(IsLegalN(bf16, 40));
  EXPECT_FALSE(IsLegalN(s8, 40));
  EXPECT_TRUE(IsLegalN(s8, 24));
  EXPECT_TRUE(IsLegalN(s8, 48));
  EXPECT_FALSE(IsLegalN(bf16, 0));
  EXPECT_FALSE(IsLegalN(bf16, 264));
  EXPECT_FALSE(IsLegalN(bf16, 12));
}

}  // namespace
}  // namespace gemmd::jit
