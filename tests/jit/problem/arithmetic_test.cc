#include "jit/problem/arithmetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace gemmd::jit {
namespace {

TEST(ArithmeticTest, NamesAreUnique) {
  std::set<std::string> names;
  for (const Arithmetic& arithmetic : Arithmetics()) {
    names.insert(Name(arithmetic));
  }
  EXPECT_EQ(names.size(), Arithmetics().size());
  for (const char* name :
       {"bf16", "f16", "f16-f16", "f32", "tf32", "tf32-fast", "e4m3",
        "e4m3-fast", "e5m2-e4m3", "e5m2-e4m3-fast", "e4m3-f16", "s8", "u8-s8",
        "s8-clamp", "b1", "b1-xor"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(ArithmeticTest, EveryInstructionIsOneRequestAway) {
  for (const Instruction& instruction : Instructions()) {
    EXPECT_TRUE(std::any_of(Arithmetics().begin(), Arithmetics().end(),
                            [&](const Arithmetic& arithmetic) {
                              return InstructionOf(arithmetic) == instruction;
                            }))
        << Name(instruction);
  }
}

TEST(ArithmeticTest, AccurateF32RunsAsProductsOfBf16) {
  const Arithmetic f32 = {.a = DataType::kF32, .b = DataType::kF32};
  EXPECT_EQ(Name(f32), "f32");
  EXPECT_EQ(Name(InstructionOf(f32)), "bf16");
}

TEST(ArithmeticTest, IntegersGiveS32UnlessAsked) {
  EXPECT_EQ(DefaultOutput(DataType::kU8), DataType::kS32);
  EXPECT_EQ(DefaultOutput(DataType::kB1), DataType::kS32);
  EXPECT_EQ(DefaultOutput(DataType::kE4m3), DataType::kE4m3);
}

}  // namespace
}  // namespace gemmd::jit
